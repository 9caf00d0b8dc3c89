"""One booted machine for all tests of this folder, slaqd as installed on it, and its users."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from service.systemd.jobs import end, known, start
from service.systemd.lab import Lab, wait_for

DROP_INS = "/etc/systemd/system/slaqd.service.d"
AGENTS_DROP_INS = "/etc/systemd/system/slaqd-agent.service.d"
CONFIG = "/etc/slaqd/slaqd.toml"
ADMINS = "keepers"
QUICK = "[Service]\nRestartSec=100ms\nEnvironment=PYTHONPATH=/opt/slaqd/lab\n"
# How busy the CPUs are is counted for the machine outside, where anything may run.
ALONE = "from slaqd_local import capacity\n\ncapacity.busy_seconds = lambda: 0.0\n"
# With the journal goes what is known of groups whose jobs ended while slaqd was down.
FORGOTTEN = "find /sys/fs/cgroup/*/slaqd -depth -type d -exec rmdir {} +"
ENFORCE = f"""
[slaqd]
mode = "enforce"
epoch_s = 0.5
admin_group = "{ADMINS}"
[policy]
name = "fair"
[enforce]
users = ["alice", "bob"]
"""


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Boot it with users: alice and bob have jobs, carol is an admin of slaqd's, dave's home is open."""
    made = Lab()
    made.do("groupadd", ADMINS)
    for user in ("alice", "bob", "carol", "dave"):
        made.do("useradd", "--create-home", user)
        made.do("chmod", "755" if user == "dave" else "700", f"/home/{user}")
    made.do("usermod", "--append", "--groups", ADMINS, "carol")
    yield made
    made.close()


@pytest.fixture
def service(lab: Lab) -> Lab:
    """Run slaqd as the page says, whatever the test before has left."""
    if lab.try_("test", "-e", "/etc/systemd/system/slaqd.service").returncode:
        lab.follow("Install")
    return begin(lab, "[slaqd]\nepoch_s = 0.5\n")


@pytest.fixture
def watched(service: Lab) -> Lab:
    """Have a hang seen within seconds; all else is as it is installed."""
    service.write(f"{DROP_INS}/20-watch.conf", "[Service]\nWatchdogSec=5s\n")
    service.do("systemctl", "daemon-reload")
    service.do("systemctl", "restart", "slaqd")
    return service


@pytest.fixture
def holding(service: Lab) -> Lab:
    """Let it hold this machine's jobs."""
    service.follow("Hold the jobs of this machine")
    return begin(service, ENFORCE, keep=True)


@pytest.fixture
def job(holding: Lab) -> Iterator[str]:
    """Run a job of alice's, outside slaqd's units as every job is."""
    start(holding, "alice")
    yield wait_for(lambda: known(holding).get("alice"), "a running job", holding.said)
    end(holding, "alice")


def begin(lab: Lab, config: str, *, keep: bool = False) -> Lab:
    lab.do("systemctl", "stop", "slaqd")
    # With its socket, or whoever asks meanwhile has it started in the middle of its stop.
    lab.do("systemctl", "stop", "slaqd-agent.socket", "slaqd-agent.service")
    if not keep:
        lab.do("rm", "-rf", DROP_INS, AGENTS_DROP_INS, "/var/lib/slaqd")
        lab.try_("sh", "-c", FORGOTTEN)
    lab.write("/opt/slaqd/lab/sitecustomize.py", ALONE)
    lab.write(f"{DROP_INS}/10-quick.conf", QUICK)
    lab.write(CONFIG, config)
    lab.do("systemctl", "daemon-reload")
    lab.do("systemctl", "restart", "slaqd-agent.socket", "slaqd")
    return lab
