"""One booted machine for all tests of this folder, and slaqd as installed on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from service.systemd.lab import Lab

DROP_INS = "/etc/systemd/system/slaqd.service.d"
CONFIG = "/etc/slaqd/slaqd.toml"
# A hang is to be seen within seconds here; all else is as it is installed.
QUICK = "[Service]\nWatchdogSec=5s\nRestartSec=100ms\n"


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    made = Lab()
    yield made
    made.close()


@pytest.fixture
def service(lab: Lab) -> Lab:
    """Run slaqd as the page says, whatever the test before has left."""
    if lab.try_("test", "-e", "/etc/systemd/system/slaqd.service").returncode:
        lab.follow("Install")
    return begin(lab, "[slaqd]\nepoch_s = 0.5\n")


@pytest.fixture
def holding(service: Lab) -> Lab:
    """Run it as root, holding this machine's jobs."""
    service.do("systemctl", "stop", "slaqd")
    service.follow("Hold the jobs of this machine")
    config = "[slaqd]\nmode = 'enforce'\nepoch_s = 0.5\n[policy]\nname = 'fair'\n"
    return begin(service, config, keep=True)


def begin(lab: Lab, config: str, *, keep: bool = False) -> Lab:
    lab.do("systemctl", "stop", "slaqd")
    if not keep:
        lab.do("rm", "-rf", DROP_INS, "/var/lib/slaqd")
    lab.write(f"{DROP_INS}/quick.conf", QUICK)
    lab.write(CONFIG, config)
    lab.do("systemctl", "daemon-reload")
    lab.do("systemctl", "restart", "slaqd")
    return lab
