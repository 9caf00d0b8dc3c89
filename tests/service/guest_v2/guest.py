"""An emulated machine with systemd and cgroup v2, for hosts whose own cgroups can't be used.

Its image is made once by ``tools/guest.sh`` and kept in the user's cache folder; each
run boots it afresh. What a run needs of this checkout comes on a second drive, seen in
the guest as ``/mnt/repo``: slaqd, its local adapter, their wheels, and the scripts.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import distribution
from pathlib import Path

REPO = Path(__file__).parents[3]
RECIPE = REPO / "tools" / "guest.sh"
SHARED = Path(__file__).with_name("guest_bench.py")
WHEELS = ("click", "msgspec", "structlog")
SBIN = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"  # where users lack mke2fs on their PATH
ENTRY = """\
#!/bin/sh
cd /mnt/repo
export PYTHONPATH=/mnt/repo:/mnt/repo/adapters:/mnt/repo/wheels PYTHONDONTWRITEBYTECODE=1
for script in scripts/[0-9]*.py; do
  python3 -u "$script"
  echo "exit $?"
done
"""


class GuestError(Exception):
    """The guest, or a script in it, didn't end as it should; the text has what it printed."""


class Guest:
    """A machine that boots in a quarter of a minute and forgets everything when it ends."""

    def __init__(self) -> None:
        self.image = cached("guest", RECIPE.read_bytes(), _make_image)
        wheels = locked(WHEELS)
        self.wheels = cached("guest-wheels", wheels.encode(), lambda path: _make_wheels(path, wheels))

    def run(self, script: Path, timeout: float) -> list[str]:
        """Run one Python script as root in the guest and give the lines that it printed.

        Raises
        ------
        GuestError
            The script failed, or the guest hasn't ended after ``timeout`` seconds.

        """
        return self.run_all([script], timeout)[0]

    def run_all(self, scripts: Sequence[Path], timeout: float) -> list[list[str]]:
        """Run several scripts one after the other in one boot; see `run`."""
        with tempfile.TemporaryDirectory(prefix="slaqd-guest-") as name:
            work = Path(name)
            _make_drive(work, scripts, self.wheels)
            ended = _boot(self.image, work, timeout)
            said = _read(work / "out")
            parts = re.split(r"^exit (\d+)\n", said, flags=re.MULTILINE)
            if not ended or parts[1::2] != ["0"] * len(scripts):
                why = "a script failed" if ended else f"the guest still ran after {timeout:g} s"
                console = "\n".join(_read(work / "console").splitlines()[-30:])
                msg = f"{why}\n-- printed:\n{said}\n-- end of the console:\n{console}\n{_read(work / 'qemu')}"
                raise GuestError(msg)
        return [part.splitlines() for part in parts[:-1:2]]


def _boot(image: Path, work: Path, timeout: float) -> bool:
    """Boot and wait for the power-off. False if it didn't come in time; nothing is left running."""
    command = [
        *("setpriv", "--pdeathsig", "KILL"),  # the guest doesn't outlive a killed test run
        *("qemu-system-x86_64", "-machine", "accel=tcg", "-cpu", "max", "-m", "1024", "-smp", "2"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-kernel", f"{image}/vmlinuz", "-initrd", f"{image}/initrd"),
        *("-append", "root=/dev/vda rw console=ttyS0 quiet panic=-1 mitigations=off"),
        *("-drive", f"file={image}/root.img,format=raw,if=virtio,snapshot=on"),
        *("-drive", f"file={work}/drive.img,format=raw,if=virtio,readonly=on"),
        *("-serial", f"file:{work}/console", "-serial", f"file:{work}/out"),
    ]
    with (work / "qemu").open("wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        finally:
            process.kill()
            process.wait()
    return True


def _make_drive(work: Path, scripts: Sequence[Path], wheels: Path) -> None:
    tree, skip = work / "tree", shutil.ignore_patterns("__pycache__")
    for part in ("slaqd", "adapters/slaqd_local", "systemd"):
        shutil.copytree(REPO / part, tree / part, ignore=skip)
    shutil.copytree(wheels, tree / "wheels")
    (tree / "wheels").chmod(0o755)  # for the guest's users; here it is a private folder
    known = distribution("slaqd")  # its version and its entry points, for importlib.metadata
    about = f"slaqd-{known.version}.dist-info"
    shutil.copytree(str(known.locate_file(about)), tree / about)
    (tree / "scripts").mkdir()
    shutil.copy(SHARED, tree / "scripts" / SHARED.name)
    for number, script in enumerate(scripts):
        shutil.copy(script, tree / "scripts" / f"{number:02}-{script.name}")
    entry = tree / "guest-run"
    entry.write_text(ENTRY)
    entry.chmod(0o755)
    _make_ext4(tree, work / "drive.img")


def _make_ext4(tree: Path, image: Path) -> None:
    command = ["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", str(tree), str(image), "64M"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PATH": SBIN})


def _make_image(path: Path) -> None:
    made = subprocess.run(["sh", str(RECIPE), str(path)], check=False, stderr=subprocess.PIPE, text=True)
    if made.returncode:
        place = _place("guest", RECIPE.read_bytes())
        by_hand = f"sudo sh {RECIPE} {place}.new && mv {place}.new {place}"
        msg = f"{made.stderr}Without root, ask for this, once:\n  {by_hand}"
        raise GuestError(msg)


def _make_wheels(path: Path, requirements: str) -> None:
    """Install for the guest's Python, 3.11, which needn't be the one that runs the tests."""
    listed = path / "requirements.txt"
    listed.write_text(requirements)
    fixed = ("--python-version", "3.11", "--only-binary=:all:", "--no-deps", "--require-hashes")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        *fixed,
        "--target",
        str(path),
        "-r",
        str(listed),
    ]
    subprocess.run(command, check=True)


def locked(names: Sequence[str]) -> str:
    """Give the part of requirements.lock that speaks of these packages, hashes included."""
    blocks = re.split(r"^(?=\S)", (REPO / "requirements.lock").read_text(), flags=re.MULTILINE)
    return "".join(block for block in blocks if block.partition("==")[0] in names)


def cached(name: str, recipe: bytes, make: Callable[[Path], None]) -> Path:
    """Give the folder that ``make`` fills, from the cache when the recipe's hash is known there.

    It gets its name only when it's whole. A lock keeps a second run waiting meanwhile;
    under it, folders without their name are a dead run's.
    """
    path = _place(name, recipe)
    if not path.is_dir():
        base = path.parent
        base.mkdir(parents=True, exist_ok=True)
        with _lock(base / f"{name}.lock"):
            for dead in base.glob(f".{name}.*"):
                shutil.rmtree(dead)
            if not path.is_dir():
                new = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=base))
                make(new)
                new.rename(path)
    return path


def _place(name: str, recipe: bytes) -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slaqd"
    return base / f"{name}-{hashlib.sha256(recipe).hexdigest()[:16]}"


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _read(path: Path) -> str:
    """Read what came over a serial port, whose lines end as a terminal's do."""
    return path.read_text(errors="replace").replace("\r\n", "\n") if path.exists() else ""
