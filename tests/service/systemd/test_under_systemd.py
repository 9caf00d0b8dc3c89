"""slaqd as a service under a real systemd: started, watched, killed, stopped, removed."""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from service.systemd.conftest import CONFIG, DROP_INS
from service.systemd.lab import CGROUPS, NAME, Lab, wait_for

HERE = Path(__file__).parent
PROBE = (HERE / "probe.py").read_text(encoding="utf-8")
CTL = "/opt/slaqd/bin/slaqctl"
# What any program leaves behind that makes a user or writes to the log.
THEIRS = re.compile(
    r"var/log/|var/(cache|lib)/apt/|etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$|etc/\.pwd\.lock$"
)
EVERYBODY = {
    "writes its state",
    "writes its runtime directory",
    "reads what everybody may",
    "opens an internet socket",
    "starts 200 threads",
}
ROOT = (EVERYBODY - {"opens an internet socket"}) | {"reads what only root may", "makes a cgroup"}

pytestmark = pytest.mark.service


@pytest.fixture
def job(holding: Lab) -> Iterator[str]:
    """Run a job of root's, outside slaqd's unit as every job is."""
    words = [CTL, "run", "--name", "job", "--max", "3", "--", "sleep", "100000"]
    holding.do("systemd-run", "--quiet", "--unit=job", *words)
    yield wait_for(lambda: known(holding).get("job"), "a running job", holding.said)
    holding.try_("systemctl", "stop", "job")
    holding.try_("systemctl", "reset-failed", "job")


def known(lab: Lab) -> dict[str, str]:
    """Give the ids of the jobs that run under a quota, by name."""
    done = lab.try_(CTL, "jobs", "--json")
    rows = json.loads(done.stdout) if done.returncode == 0 else []
    return {row["name"]: row["job"] for row in rows if row["state"] == "running" and row["units"] == 3}


def alive(lab: Lab, pid: str) -> bool:
    return lab.try_("kill", "-0", pid).returncode == 0


def hang(lab: Lab) -> None:
    """Stop the daemon, and wait until systemd has started another."""
    before = wait_for(lab.runs, "a running slaqd", lab.said)
    lab.do("kill", "-STOP", str(before))
    wait_for(lambda: lab.runs() not in (None, 0, before), "another slaqd", lab.said)


# start


def test_the_documented_steps_give_a_running_service_that_says_how_it_stands(service: Lab) -> None:
    assert service.do("systemctl", "is-enabled", "slaqd").strip() == "enabled"
    wait_for(lambda: service.show("StatusText") == "no jobs; observing only", "a sentence", service.said)
    assert 'Status: "no jobs; observing only"' in service.do("systemctl", "status", "slaqd")
    assert "observing only" in service.do(CTL, "status")


def test_systemd_has_nothing_to_say_against_what_is_installed(holding: Lab) -> None:
    done = holding.try_("systemd-analyze", "verify", "--man=no", "slaqd.service")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_wrong_configuration_is_named_and_not_tried_again(service: Lab) -> None:
    restarts = service.show("NRestarts")
    service.write(CONFIG, "[slaqd]\nmod = 'enforce'\n")
    assert service.try_("systemctl", "restart", "slaqd").returncode != 0
    assert service.show("ActiveState") == "failed"
    assert (service.show("ExecMainStatus"), service.show("NRestarts")) == ("78", restarts)
    assert f"{CONFIG}:2: unknown key 'mod'" in service.said()


JOURNAL = """
from pathlib import Path
from slaqd.act import Journal
from slaqd.adapter import Registration
from slaqd.types import JobKey, Owner, Tag

journal = Journal(Path("/var/lib/slaqd/journal.sqlite"))
owner = Owner(uid=0, name="root")
jobs = [
    Registration(
        key=JobKey("local", str(100_000 + n), 7), owner=owner, tag=Tag(), name=f"j{n}", cwd="/", submitted=1.0
    )
    for n in range(4000)
]
journal.take_over(jobs, ())
journal.close()
"""


def began_with_4000_jobs(lab: Lab) -> float:
    """Start it with 4,000 jobs in its journal, and give the seconds until it was ready."""
    lab.do("systemctl", "stop", "slaqd")
    lab.do("mkdir", "-p", "/var/lib/slaqd")
    lab.do("/opt/slaqd/bin/python", "-P", "-c", JOURNAL)
    lab.do("chown", "-R", "slaqd:", "/var/lib/slaqd")
    lab.do("systemctl", "start", "slaqd")
    began, ready = (
        int(lab.show(name)) for name in ("ExecMainStartTimestampMonotonic", "ActiveEnterTimestampMonotonic")
    )
    return (ready - began) / 1e6


def test_it_is_ready_and_answers_with_4000_jobs_known(service: Lab) -> None:
    began_with_4000_jobs(service)
    rows = json.loads(service.do(CTL, "jobs", "--all", "--json"))
    assert len(rows) == 4000


@pytest.mark.soak
def test_it_is_ready_within_two_seconds_with_4000_jobs_known(service: Lab) -> None:
    assert statistics.median(began_with_4000_jobs(service) for _ in range(5)) <= 2.0


# rights


def test_the_daemon_has_a_user_of_its_own_and_no_capability(service: Lab) -> None:
    rights = rights_of(service)
    assert rights.pop("Uid") == [service.do("id", "-u", "slaqd").strip()] * 4
    assert rights == NOTHING


def test_the_daemon_that_holds_jobs_is_root_without_capabilities(holding: Lab) -> None:
    rights = rights_of(holding)
    assert rights.pop("Uid") == ["0"] * 4
    assert rights == NOTHING


NOTHING = {
    **{f"Cap{name}": ["0" * 16] for name in ("Prm", "Eff", "Bnd", "Amb")},
    "NoNewPrivs": ["1"],
    "Seccomp": ["2"],
}


def rights_of(lab: Lab) -> dict[str, list[str]]:
    lines = lab.do("cat", f"/proc/{lab.pid()}/status").splitlines()
    fields = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    return {name: fields[name] for name in ("Uid", *NOTHING)}


def test_from_the_service_no_more_can_be_done_than_the_page_says(service: Lab) -> None:
    assert probed(service) == EVERYBODY


def test_from_the_service_as_root_no_more_can_be_done_than_the_page_says(holding: Lab) -> None:
    assert probed(holding) == ROOT


def probed(lab: Lab) -> set[str]:
    """Give what a program can do that stands in slaqd's place."""
    lab.do("useradd", "--create-home", "alice")
    lab.do("systemctl", "stop", "slaqd")
    lab.do("sh", "-c", "cd /home/alice && echo 1 >open && echo 1 >closed && chown alice open closed")
    lab.do("chmod", "755", "/home/alice")
    lab.do("chmod", "600", "/home/alice/closed")
    lab.do("systemd-run", "--quiet", "--unit=hers", "--uid=alice", "sleep", "100000")
    lab.write("/opt/slaqd/probe.py", PROBE)
    start = f"ExecStartPre=/usr/bin/python3 /opt/slaqd/probe.py {lab.show('MainPID', 'hers')}"
    lab.write(f"{DROP_INS}/probe.conf", f"[Service]\n{start}\n")
    try:
        lab.do("systemctl", "daemon-reload")
        lab.do("systemctl", "start", "slaqd")
        return set(json.loads(lab.do("cat", "/run/slaqd/probe.json")))
    finally:
        lab.do("systemctl", "stop", "hers")
        lab.do("userdel", "--remove", "alice")
        lab.do("rm", "-f", f"{DROP_INS}/probe.conf", "/opt/slaqd/probe.py")


def test_the_service_cant_take_the_machines_memory(service: Lab) -> None:
    service.do("systemctl", "stop", "slaqd")
    eats = "ExecStartPre=/usr/bin/python3 -c 'bytearray(b\"x\") * 3_000_000_000'"
    service.write(f"{DROP_INS}/eats.conf", f"[Service]\n{eats}\nRestart=no\n")
    service.do("systemctl", "daemon-reload")
    assert service.try_("systemctl", "start", "slaqd").returncode != 0
    assert service.show("Result") in {
        "oom-kill",
        "signal",
    }  # only cgroup v2 tells systemd whose signal it was
    assert "status=9/KILL" in service.said()


# watched


def test_a_slaqd_that_hangs_is_started_again(service: Lab) -> None:
    for _ in range(3):
        hang(service)
    assert int(service.show("NRestarts")) == 3
    assert service.said().count("Watchdog timeout") >= 3


@pytest.mark.soak
def test_twenty_times_a_slaqd_that_hangs_is_started_again(service: Lab) -> None:
    for _ in range(20):
        hang(service)
    assert int(service.show("NRestarts")) == 20


def test_a_loop_that_hangs_is_a_slaqd_that_hangs_though_its_socket_answers(service: Lab) -> None:
    service.write("/opt/slaqd/hang/sitecustomize.py", HANGS)
    service.write(f"{DROP_INS}/hang.conf", "[Service]\nEnvironment=PYTHONPATH=/opt/slaqd/hang\n")
    service.do("systemctl", "daemon-reload")
    service.do("systemctl", "restart", "slaqd")
    assert "no cycle yet" in service.do(CTL, "status")
    wait_for(lambda: int(service.show("NRestarts")) >= 1, "a restart", service.said)
    assert "in hangs_here" in service.said()
    service.do("rm", "-r", "/opt/slaqd/hang")


HANGS = """
import threading
from slaqd_local.adapter import LocalAdapter

def hangs_here(*_):
    threading.Event().wait()

LocalAdapter.snapshot = hangs_here
"""


def test_a_killed_slaqd_comes_back_and_knows_its_jobs(holding: Lab, job: str) -> None:
    before = holding.pid()
    holding.do("kill", "-KILL", str(before))
    wait_for(lambda: holding.runs() not in (None, 0, before), "another slaqd", holding.said)
    wait_for(lambda: known(holding).get("job") == job, "the job under its quota", holding.said)


# reload


def test_a_reload_takes_what_is_new_and_keeps_the_process_and_its_jobs(holding: Lab, job: str) -> None:
    before = holding.pid()
    holding.write(CONFIG, "[slaqd]\nmode = 'observe'\nepoch_s = 0.5\n")
    holding.do("systemctl", "reload", "slaqd")
    wait_for(lambda: "observing only" in holding.show("StatusText"), "the new mode", holding.said)
    assert (holding.pid(), holding.show("ActiveState"), alive(holding, job)) == (before, "active", True)
    assert "1 jobs running" in holding.show("StatusText")


def test_a_reload_of_a_wrong_configuration_keeps_the_old_one_and_says_why(service: Lab) -> None:
    before = service.pid()
    service.write(CONFIG, "[slaqd]\nmod = 'enforce'\n")
    service.do("systemctl", "reload", "slaqd")
    wait_for(lambda: "unknown key 'mod'" in service.show("StatusText"), "the reason", service.said)
    assert (service.pid(), service.show("ActiveState")) == (before, "active")


# stop


def test_stopping_is_a_success_and_ends_no_job(holding: Lab, job: str) -> None:
    quota = f"/sys/fs/cgroup/cpu/slaqd/job-{job}-*/cpu.cfs_quota_us"
    held = holding.do("sh", "-c", f"cat {quota}")
    holding.do("systemctl", "stop", "slaqd")
    assert (holding.show("Result"), holding.show("ExecMainStatus")) == ("success", "0")
    assert alive(holding, job)
    assert int(held) > 0 > int(holding.do("sh", "-c", f"cat {quota}"))
    holding.do("systemctl", "start", "slaqd")
    wait_for(lambda: known(holding).get("job") == job, "the job under its quota", holding.said)


def test_removing_it_leaves_nothing_behind_and_ends_no_job(holding: Lab, job: str) -> None:
    holding.follow("Remove")
    assert alive(holding, job)
    assert holding.try_("getent", "passwd", "slaqd").returncode != 0
    assert holding.try_("getent", "group", "slaqd").returncode != 0
    assert "could not be found" in holding.try_("systemctl", "status", "slaqd").stderr
    assert not holding.do("find", "/run", "/sys/fs/cgroup", "/tmp", "-name", "*slaqd*")  # noqa: S108 - looked at only
    assert holding.try_("pgrep", "-f", "/opt/slaqd/bin/slaqd ").returncode != 0
    assert sorted(path for path in holding.files() - holding.files_before if not THEIRS.search(path)) == []
    for path in ("etc/passwd", "etc/group", "etc/shadow", "etc/gshadow"):
        assert "slaqd" not in holding.do("cat", f"/{path}")


# the machine itself


MAKER = """
import sys
from service.systemd.lab import Lab
lab = Lab()
print(lab.init, flush=True)
sys.stdin.read()
"""


def test_nothing_is_left_of_the_machine_when_its_maker_is_killed() -> None:
    command = [sys.executable, "-c", MAKER]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    maker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    with maker:
        assert maker.stdout is not None
        init = int(maker.stdout.readline())
        assert list(CGROUPS.glob(f"*/{NAME}{maker.pid}"))
        maker.send_signal(signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{init}").exists(), "the end of its PID 1")
    wait_for(lambda: not list(CGROUPS.glob(f"*/{NAME}{maker.pid}")), "the end of its groups")
    assert f"{NAME}{maker.pid}" not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")
