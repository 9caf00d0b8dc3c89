"""slaqd as a service under a real systemd: started, watched, killed, stopped, removed."""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from service.systemd.conftest import CONFIG, DROP_INS, ENFORCE
from service.systemd.jobs import CTL, alive, known, quota
from service.systemd.lab import CGROUPS, NAME, Lab, wait_for

# What any program leaves behind that makes users or writes to the log.
THEIRS = re.compile(
    r"var/log/|var/(cache|lib)/apt/|etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$|etc/\.pwd\.lock$"
    r"|home/(alice|bob|carol|dave)(/|$)|srv/(alice|bob)\.py$"
)

pytestmark = pytest.mark.service


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
    units = ("slaqd.service", "slaqd-agent.service", "slaqd-agent.socket")
    done = holding.try_("systemd-analyze", "verify", "--man=no", *units)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_wrong_configuration_is_named_and_not_tried_again(service: Lab) -> None:
    restarts = service.show("NRestarts")
    service.write(CONFIG, "[slaqd]\nmod = 'enforce'\n")
    assert service.try_("systemctl", "restart", "slaqd").returncode != 0
    assert service.show("ActiveState") == "failed"
    assert (service.show("ExecMainStatus"), service.show("NRestarts")) == ("78", restarts)
    assert f"{CONFIG}:2: unknown key 'mod'" in service.said()


def test_a_state_directory_that_is_refused_is_named_and_not_tried_again(service: Lab) -> None:
    service.do("systemctl", "stop", "slaqd")
    service.do("ln", "-sf", "/nothing", "/var/lib/slaqd/lock")
    restarts = service.show("NRestarts")
    assert service.try_("systemctl", "restart", "slaqd").returncode != 0
    assert service.show("ActiveState") == "failed"
    assert (service.show("ExecMainStatus"), service.show("NRestarts")) == ("78", restarts)
    assert "/var/lib/slaqd/lock: no file; move it away" in service.said()
    service.do("rm", "/var/lib/slaqd/lock")
    service.do("systemctl", "restart", "slaqd")
    assert service.show("ActiveState") == "active"


JOURNAL = """
from pathlib import Path
from slaqd.act import Journal
from slaqd.adapter import Registration
from slaqd.types import JobKey, Owner, Tag

journal = Journal(Path("/var/lib/slaqd/journal.sqlite"))
owner = Owner(uid=1000, name="alice")
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


# watched


def test_a_slaqd_that_hangs_is_started_again(watched: Lab) -> None:
    for _ in range(3):
        hang(watched)
    assert int(watched.show("NRestarts")) == 3
    assert watched.said().count("Watchdog timeout") >= 3


@pytest.mark.soak
def test_twenty_times_a_slaqd_that_hangs_is_started_again(watched: Lab) -> None:
    for _ in range(20):
        hang(watched)
    assert int(watched.show("NRestarts")) == 20


def test_a_loop_that_hangs_is_a_slaqd_that_hangs_though_its_socket_answers(watched: Lab) -> None:
    watched.write("/opt/slaqd/hang/sitecustomize.py", HANGS)
    watched.write(f"{DROP_INS}/20-hang.conf", "[Service]\nEnvironment=PYTHONPATH=/opt/slaqd/hang\n")
    watched.do("systemctl", "daemon-reload")
    watched.do("systemctl", "restart", "slaqd")
    assert "no cycle yet" in watched.do(CTL, "status")
    wait_for(lambda: int(watched.show("NRestarts")) >= 1, "a restart", watched.said)
    assert "in hangs_here" in watched.said()
    watched.do("rm", "-r", "/opt/slaqd/hang")


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
    wait_for(lambda: known(holding).get("alice") == job, "the job under its quota", holding.said)


# reload


def test_a_reload_takes_what_is_new_and_keeps_the_process_and_its_jobs(holding: Lab, job: str) -> None:
    before = holding.pid()
    holding.write(CONFIG, ENFORCE.replace('enforce"', 'observe"'))
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
    before = quota(holding, job)
    holding.do("systemctl", "stop", "slaqd")
    assert (holding.show("Result"), holding.show("ExecMainStatus")) == ("success", "0")
    assert alive(holding, job)
    assert before > 0 > quota(holding, job)
    holding.do("systemctl", "start", "slaqd")
    wait_for(lambda: known(holding).get("alice") == job, "the job under its quota", holding.said)


def test_stopping_both_at_once_lets_jobs_run_free_first(holding: Lab, job: str) -> None:
    assert quota(holding, job) > 0
    holding.do("systemctl", "stop", "slaqd", "slaqd-agent.socket")
    assert (holding.show("Result"), holding.show("Result", "slaqd-agent")) == ("success", "success")
    assert holding.show("ActiveState", "slaqd-agent") == "inactive"
    assert quota(holding, job) < 0
    assert alive(holding, job)
    assert not holding.do("find", "/run", "-maxdepth", "1", "-name", "slaqd*")


def test_removing_it_leaves_nothing_behind_and_ends_no_job(holding: Lab, job: str) -> None:
    holding.follow("Remove")
    assert alive(holding, job)
    assert holding.try_("getent", "passwd", "slaqd").returncode != 0
    assert holding.try_("getent", "group", "slaqd").returncode != 0
    for unit in ("slaqd", "slaqd-agent", "slaqd-agent.socket"):
        assert "could not be found" in holding.try_("systemctl", "status", unit).stderr
    left = ("find", "/run", "/sys/fs/cgroup", "/tmp", "-path", "*slaqd*", "-type", "d,s,f,p")  # noqa: S108 - looked at only
    assert not holding.do(*left)
    assert holding.try_("pgrep", "-f", "/opt/slaqd/bin/slaqd[ -]").returncode != 0
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
