"""slaqd's cgroup v2 code against a real kernel and a real systemd."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

pytestmark = [pytest.mark.service, pytest.mark.timeout(1500)]  # the first one may have to make the guest


@pytest.mark.parametrize("script", ["probe.py", "scenario.py", "several.py"])
def test_every_check_made_in_the_guest_is_ok(printed: Mapping[str, Sequence[str]], script: str) -> None:
    lines = printed[script]
    checks = [json.loads(line) for line in lines if line.startswith("{")]
    good = bool(checks) and all(check["ok"] is True for check in checks)
    whole = [line for line in lines if not line.startswith("{")] == ["DONE"]  # else there is a traceback
    assert good and whole, "\n".join(lines)  # noqa: PT018 - either way all the lines are what helps
