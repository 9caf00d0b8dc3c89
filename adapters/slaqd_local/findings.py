"""What `slaqctl doctor` says of this machine."""

from __future__ import annotations

from slaqd.types import Finding, Severity
from slaqd_local.config import Config
from slaqd_local.holder import Holder

_DO = {
    "cgroup2": "run slaqd as root, or in a unit with Delegate=cpu",
    "cgroup1": "run slaqd as root, or where a group of the cpu hierarchy is yours",
    "keeper": "run slaqd as the owner of the jobs",
}


def findings(config: Config, holder: Holder, all_units: int) -> list[Finding]:
    """Say which means is used and why not a better one, and how the machine is divided."""
    found = []
    for name in holder.order:
        why = holder.why_not(name)
        if why is None:
            found.append(Finding(Severity.OK, f"jobs are held by {name}"))
            break
        found.append(Finding(Severity.WARNING, f"{name} can't be used: {why}", _DO[name]))
    else:
        found.append(Finding(Severity.ERROR, "no job can be held", f"set means to auto, not {config.means}"))
    size = config.unit_milli / 1000
    bound = "" if config.cores is None else f", of which jobs may hold {config.cores:g} cores"
    found.append(Finding(Severity.OK, f"this machine has {all_units} units of {size:g} core{bound}"))
    return found
