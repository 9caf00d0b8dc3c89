"""Odd names, patterns, and rights (T4, T10, T12)."""

from __future__ import annotations

import os
from pathlib import Path

from agent_world import BOB, SHARED, Trees, rows
from hostile_case import DENIED, NO_NAME, NONE_YET, NOT_HERS, case

from slaqd.types import Health

# the names of files, as in T10 and T12


@case("a NUL in the name", NO_NAME)
def _(trees: Trees) -> str:
    return f"{trees.alice}/a\0b"


@case("a NUL in a pattern", NONE_YET, Health.MISSING)
def _(trees: Trees) -> str:
    return f"{trees.alice}/a\0*"


@case("a name that is no UTF-8", "not UTF-8")
def _(trees: Trees) -> str:
    return f"{trees.alice}/\udcff"


@case("a pattern that matches a name that is no UTF-8", points=4)
def _(trees: Trees) -> str:
    trees.file(trees.alice / "\udcff.log")
    return f"{trees.alice}/*.log"


@case("a name of 255 bytes", points=4)
def _(trees: Trees) -> Path:
    return trees.file(trees.alice / ("x" * 255))


@case("a name of 256 bytes", "name too long")
def _(trees: Trees) -> Path:
    return trees.alice / ("x" * 256)


@case("a path of 4,096 bytes", "name too long")
def _(trees: Trees) -> str:
    return f"{trees.alice}/{'x/' * 2048}log"


@case("a name that steers terminals", points=4)
def _(trees: Trees) -> Path:
    return trees.file(trees.alice / "a\x1b7\r\nb\u202ec")


@case("a name that steers terminals, and is not there", "not there yet", Health.MISSING)
def _(trees: Trees) -> Path:
    return trees.alice / "a\x1b7\r\nb\u202ec"


# patterns


@case("a pattern in one's own tree", points=4)
def _(trees: Trees) -> str:
    trees.file(trees.alice / "run.log")
    return f"{trees.alice}/*.log"


@case("a pattern that matches nothing", NONE_YET, Health.MISSING)
def _(trees: Trees) -> str:
    return f"{trees.alice}/*.log"


@case("a pattern in Bob's tree", NONE_YET, Health.MISSING)
def _(trees: Trees) -> str:
    trees.file(trees.bob / "run.log", uid=BOB)
    return f"{trees.bob}/*.log"


@case("a pattern that matches links to Bob's and root's", NONE_YET, Health.MISSING)
def _(trees: Trees) -> str:
    trees.link(trees.alice / "1.log", trees.file(trees.bob / "log", uid=BOB))
    trees.link(trees.alice / "2.log", trees.file(trees.root / "log", uid=0))
    return f"{trees.alice}/*.log"


@case("a pattern over all trees", NONE_YET, Health.MISSING)
def _(trees: Trees) -> str:
    trees.file(trees.bob / "run.log", uid=BOB)
    return f"{trees.top}/*/*.log"


@case("a pattern that leads up", NONE_YET, Health.MISSING)
def _(trees: Trees) -> str:
    trees.file(trees.bob / "run.log", uid=BOB)
    return f"{trees.alice}/../bob/*.log"


@case("a pattern over processes", NONE_YET, Health.MISSING)
def _(_trees: Trees) -> str:
    return "/proc/[1-9]/environ"


@case("a pattern for whole trees goes one step down only", points=4)
def _(trees: Trees) -> str:
    trees.file(trees.folder(trees.alice / "1") / "run.log")
    deep = trees.folder(trees.folder(trees.alice / "2") / "deep")
    trees.file(deep / "run.log", rows(9))
    return f"{trees.alice}/**/run.log"


@case("a pattern that matches 100,000 files of root's", NONE_YET, Health.MISSING)
def _(trees: Trees) -> str:
    for number in range(100_000):
        os.mknod(trees.alice / f"{number}.log")
    return f"{trees.alice}/*.log"


@case("a pattern that matches 1,000 files", points=4)
def _(trees: Trees) -> str:
    for number in range(999):
        os.utime(trees.file(trees.alice / f"{number}.log", "loss\n"), ns=(number, number))
    trees.file(trees.alice / "run.log")
    return f"{trees.alice}/*.log"


@case("a pattern of 1,500 directories", NO_NAME)
def _(trees: Trees) -> str:
    return f"{trees.alice}" + "/*" * 1500


@case("a pattern that backtracks", NONE_YET, Health.MISSING)
def _(trees: Trees) -> str:
    trees.file(trees.alice / ("a" * 250))
    return f"{trees.alice}/{'*a' * 60}b"


@case("a bracket that is never closed", points=4)
def _(trees: Trees) -> Path:
    return trees.file(trees.alice / "[x.log")


# the rights of files, as in T4


@case("a file of Bob's in one's own directory", NOT_HERS)
def _(trees: Trees) -> Path:
    return trees.file(trees.alice / "log", uid=BOB)


@case("one's own file in Bob's directory", points=4)
def _(trees: Trees) -> Path:
    return trees.file(trees.bob / "log")


@case("one's own file without any rights", DENIED)
def _(trees: Trees) -> Path:
    return trees.file(trees.alice / "log", mode=0)


@case("one's own file that can only be written", DENIED)
def _(trees: Trees) -> Path:
    return trees.file(trees.alice / "log", mode=0o200)


@case("one's own private tree", points=4)
def _(trees: Trees) -> Path:
    private = trees.folder(trees.alice / "private", mode=0o700)
    return trees.file(private / "log", mode=0o600)


@case("a directory that can be passed but not listed", points=4)
def _(trees: Trees) -> Path:
    return trees.file(trees.folder(trees.alice / "dir", mode=0o111) / "log")


@case("Bob's private tree", DENIED)
def _(trees: Trees) -> Path:
    trees.bob.chmod(0o700)
    return trees.file(trees.bob / "log", uid=BOB)


@case("one's own file in Bob's private tree", DENIED)
def _(trees: Trees) -> Path:
    trees.bob.chmod(0o700)
    return trees.file(trees.bob / "log")


@case("a directory for a group that one is in besides", points=4)
def _(trees: Trees) -> Path:
    shared = trees.folder(trees.top / "shared", 0, 0o750)
    os.chown(shared, 0, SHARED)
    return trees.file(shared / "log", mode=0o600)


@case("a directory for a group of root's", DENIED)
def _(trees: Trees) -> Path:
    return trees.file(trees.folder(trees.top / "shared", 0, 0o750) / "log")


@case("a file that all but its group may read", DENIED)
def _(trees: Trees) -> Path:
    path = trees.file(trees.alice / "log", uid=BOB, mode=0o604)
    os.chown(path, BOB, SHARED)
    return path
