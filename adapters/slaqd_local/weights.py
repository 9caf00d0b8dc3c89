"""What the jobs' groups weigh against all else on the machine, where CPU is short in spite of quotas."""

from __future__ import annotations

import os
from pathlib import Path

from slaqd_local import groups


class Weights:
    """Weighs each job as it was granted CPU, and the group above as all of them together.

    A weight a core and not one a job: many jobs that were granted little weigh little, and
    together no more than the machine's cores. So one user's hundred sleepers push nobody aside.

    Parameters
    ----------
    file
        The name of the control file that holds a group's weight.
    usual
        What one core weighs: the kernel's own default for a group.
    least, most
        Bounds that the kernel sets.

    """

    def __init__(self, file: str, usual: int, least: int, most: int) -> None:
        self._file = file
        self._usual = usual
        self._least = least
        self._most = most
        # To read all groups at each change is quadratic in the jobs. Nobody else writes them.
        self._known: dict[Path, int] = {}

    def set(self, directory: Path, milli: int) -> None:
        """Weigh a job's group by thousandths of a core."""
        weight = min(self._most, max(self._least, milli * self._usual // 1000))
        groups.write(directory / self._file, str(weight))
        self._known[directory] = weight
        self._together(directory.parent)

    def drop(self, directory: Path) -> None:
        """Weigh the others anew, now that a job's group was emptied, and is gone if nothing stayed in it."""
        if not directory.exists():
            self._known.pop(directory, None)
        self._together(directory.parent)

    def _together(self, home: Path) -> None:
        try:
            if groups.count(home) != len(self._known):
                self._known = self._read(home)
            most = min(self._most, self._usual * (os.cpu_count() or 1))
            together = min(most, max(self._usual, sum(self._known.values())))
            groups.write(home / self._file, str(together))
        except FileNotFoundError:
            self._known = {}  # it went with its last job

    def _read(self, home: Path) -> dict[Path, int]:
        found = {}
        for each in home.glob("job-*"):
            try:
                found[each] = groups.number(each / self._file)
            except FileNotFoundError:
                continue
        return found
