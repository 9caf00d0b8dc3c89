"""What each of the two may do under its unit, and no more: as the page says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from service.systemd.conftest import AGENTS_DROP_INS, DROP_INS
from service.systemd.jobs import TRAINS, end, said_in, start
from service.systemd.lab import Lab, wait_for

PROBE = (Path(__file__).parent / "probe.py").read_text(encoding="utf-8")
AGENT = "slaqd-agent"
FOLDERS = {"slaqd": DROP_INS, AGENT: AGENTS_DROP_INS}
SETUID_SETGID = f"{1 << 6 | 1 << 7:016x}"

SLAQD = {
    "writes its state",
    "writes its runtime directory",
    "reads what everybody may",
    "sees a user's process",
    "opens an internet socket",
    "starts 150 threads",
    "starts 200 threads",
}
READER = {
    "reads what everybody may",
    "reads the host's /tmp",
    "reads what everybody may in a home",
    "reads what only root may",
    "as a user: reads her file",
    "as a user: writes to her home",
    "starts 150 threads",
}
HOLDER = READER | {"makes a cgroup", "sees a user's process"}

pytestmark = pytest.mark.service


def rights(lab: Lab, pid: int) -> dict[str, str]:
    lines = lab.do("cat", f"/proc/{pid}/status").splitlines()
    fields = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    assert len(set(fields["Uid"])) == 1
    return {
        name: fields[name][0] for name in ("Uid", *(f"Cap{each}" for each in CAPS), "NoNewPrivs", "Seccomp")
    }


CAPS = ("Prm", "Eff", "Bnd", "Amb", "Inh")


def expected(uid: str, capabilities: str) -> dict[str, str]:
    caps = {f"Cap{each}": capabilities if each in {"Prm", "Eff", "Bnd"} else "0" * 16 for each in CAPS}
    return {"Uid": uid, **caps, "NoNewPrivs": "1", "Seccomp": "2"}


def test_slaqd_has_a_user_of_its_own_and_no_capability_and_its_agent_two(holding: Lab) -> None:
    uid = holding.do("id", "-u", "slaqd").strip()
    assert rights(holding, holding.pid()) == expected(uid, "0" * 16)
    main = wait_for(lambda: holding.runs(AGENT), "the agent", lambda: holding.said(AGENT))
    forker = int(holding.do("pgrep", "--parent", str(main)))
    for pid in (main, forker):
        assert rights(holding, pid) == expected("0", SETUID_SETGID)


def test_from_slaqd_no_more_can_be_done_than_the_page_says(holding: Lab) -> None:
    assert probed(holding, "slaqd") == SLAQD


def test_from_the_agent_no_more_can_be_done_than_the_page_says(service: Lab) -> None:
    assert probed(service, AGENT) == READER


def test_from_the_agent_that_holds_jobs_no_more_can_be_done_than_the_page_says(holding: Lab) -> None:
    assert probed(holding, AGENT) == HOLDER


def probed(lab: Lab, unit: str) -> set[str]:
    """Give what a program can do that stands in a unit's place."""
    start(lab, "alice", program=TRAINS.replace("1_000_000", "1"))
    try:
        lab.do("sh", "-ec", FILES)
        lab.write("/srv/probe.py", PROBE)
        whose = f"{lab.pid('job-alice')} {lab.do('id', '-u', 'alice').strip()}"
        before(lab, unit, f"/usr/bin/python3 /srv/probe.py {whose}")
        lab.try_("systemctl", "restart", unit)
        (said,) = [line for line in said_in(lab, unit).splitlines() if line.startswith("probe ")]
        return set(json.loads(said.removeprefix("probe ")))
    finally:
        lab.do(
            "sh",
            "-c",
            "rm -rf ~root/probe /srv/open /srv/probe.py /tmp/probe /home/dave/open /home/alice/closed",
        )
        end(lab, "alice")


FILES = """
echo 1 >/srv/open
echo 1 >~root/probe
mkdir /tmp/probe /tmp/probe/x
rmdir /tmp/probe/x
echo 1 >/tmp/probe/open
echo 1 >/home/dave/open
umask 077
echo 1 >/home/alice/closed
chown alice: /home/alice/closed
"""


def before(lab: Lab, unit: str, command: str) -> None:
    """Have a command run in a unit's place, before its daemon."""
    lab.write(f"{FOLDERS[unit]}/20-before.conf", f"[Service]\nExecStartPre={command}\nRestart=no\n")
    lab.do("systemctl", "daemon-reload")


@pytest.mark.parametrize("unit", ["slaqd", AGENT])
def test_neither_can_take_the_machines_memory(service: Lab, unit: str) -> None:
    most = int(service.show("MemoryMax", unit))
    service.do("systemctl", "stop", "slaqd", AGENT)
    before(service, unit, f"/usr/bin/python3 -c 'bytearray(b\"x\") * {most * 2}'")
    assert service.try_("systemctl", "start", unit).returncode != 0
    # Only cgroup v2 tells systemd whose signal it was.
    assert service.show("Result", unit) in {"oom-kill", "signal"}
    assert "status=9/KILL" in service.said(unit)


def test_the_agent_is_slaqds_alone_to_ask(service: Lab) -> None:
    asks = "import socket; socket.socket(socket.AF_UNIX).connect('/run/slaqd-agent.sock')"
    done = service.as_user("alice", "/usr/bin/python3", "-c", asks)
    assert done.returncode == 1
    assert "PermissionError" in done.stderr
