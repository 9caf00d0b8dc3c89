"""``slaqd`` for tests on a machine that others use too: what those use is taken for nothing.

How others' use is measured and taken from the room has tests of its own (`tests/unit/local`);
here it would only make the room another one in each run. All else is the real daemon.
"""

from __future__ import annotations

from slaqd_local.capacity import Others

from slaqd.daemon.__main__ import main


def nothing(_others: Others, _at: float, _busy: float, _jobs: float) -> float:
    return 0.0


if __name__ == "__main__":
    Others.look = nothing  # type: ignore[method-assign]
    main(prog_name="slaqd")
