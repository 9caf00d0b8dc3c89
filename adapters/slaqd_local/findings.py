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
_DO_WITH_AGENT = {
    "cgroup2": "see that slaqd-agent runs, and may write to cgroups (hold.conf, docs/service.md)",
    "cgroup1": "see that slaqd-agent runs, and may write to cgroups (hold.conf, docs/service.md)",
    "keeper": "run slaqd without an agent, as the owner of the jobs",
}


def findings(config: Config, holder: Holder, all_units: int) -> list[Finding]:
    """Say which means is used and why not a better one, and how the machine is divided."""
    found = []
    do, writer = (_DO_WITH_AGENT, ", which slaqd-agent writes") if holder.agent else (_DO, "")
    for name in holder.order:
        why = holder.why_not(name)
        if why is None:
            found.append(Finding(Severity.OK, f"jobs are held by {name}{writer}"))
            break
        found.append(Finding(Severity.WARNING, f"{name} can't be used: {why}", do[name]))
    else:
        auto = config.means == "auto"
        what = "one of the above has to be mended" if auto else f"set means to auto, not {config.means}"
        found.append(Finding(Severity.ERROR, "no job can be held", what))
    size = config.unit_milli / 1000
    bound = "" if config.cores is None else f", of which jobs may hold {config.cores:g} cores"
    found.append(Finding(Severity.OK, f"this machine has {all_units} units of {size:g} core{bound}"))
    return found
