"""What may stand in a file (T6, T7, T8, T12)."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

from agent_world import Trees, rows
from hostile_case import case, holds

from slaqd.types import Health

# what stands in the file (T6, T7, T8, T12)


def sparse(trees: Trees, size: int, before: str = "", after: str = "") -> Path:
    path = trees.file(trees.alice / "log", before)
    with path.open("r+b") as file:
        file.truncate(size)
        file.seek(0, os.SEEK_END)
        file.write(after.encode())
    return path


@case("a hole of 10 GB", "empty", Health.EMPTY)
def _(trees: Trees) -> Path:
    return sparse(trees, 10 * 2**30)


@case("a hole of 10 GB between points", points=8)
def _(trees: Trees) -> Path:
    return sparse(trees, 10 * 2**30, rows(4), "\n" + rows(4, 5))


@case("a bomb of 10 GB", health=Health.UNKNOWN_FORMAT)
def _(trees: Trees) -> Path:
    return trees.file(trees.alice / "log.gz", gzip.compress(gzip.compress(bytes(2**26)) * 40))


@case("a program", health=Health.UNKNOWN_FORMAT)
def _(trees: Trees) -> Path:
    return trees.file(trees.alice / "log", Path("/bin/true").read_bytes())


holds("nothing", "", health=Health.EMPTY)
holds("line ends alone", "\n" * 100_000, health=Health.EMPTY)
holds("a line of 8 MB", "x" * 2**23 + "\n" + rows(), points=4)
holds("a line of 8 MB without an end", rows() + '{"loss": ' + "1" * 2**23, points=4)
holds("a block of NULs between points", rows().encode() + bytes(8192) + b"\n" + rows(4, 5).encode(), points=8)
holds("JSON nested 100,000 deep", '{"a": ' * 100_000 + "\n" + rows(), points=4)
holds("lists nested 100,000 deep", rows() + '{"loss": 1, "a": ' + "[" * 100_000 + "\n" + rows(4, 5), points=8)
holds("JSON nested 10,000 deep", rows() + '{"a":' * 10_000 + "1" + "}" * 10_000 + "\n", points=4)
KEYS = ", ".join(f'"k{number}": 1' for number in range(100_000))
COLUMNS = ",".join(f"k{number}" for number in range(5000))
holds("a row of 100,000 keys", f"{{{KEYS}}}\n{rows()}", points=4)
holds("a table of 5,000 columns", f"loss,{COLUMNS}\n1{',2' * 5000}\n", points=1)
holds(
    "bytes that are no UTF-8",
    b'{"step": 1, "loss": 1, "x": "\xff\xfe\xc0\x80"}\n' + rows(3, 2).encode(),
    points=4,
)
holds("UTF-16", rows().encode("utf-16"), health=Health.UNKNOWN_FORMAT)
holds("a mark before the text", "\ufeff" + rows(), points=4)
holds("line ends of another system", rows().replace("\n", "\r\n"), points=4)
holds(
    "odd numbers of JSON",
    '{"loss": 1}\n{"loss": "1_000"}\n{"loss": "٣"}\n{"loss": "1e999"}\n{"loss": 2}\n',
    "'1_000'",
    points=2,
)
holds("odd numbers in a table", "step,loss\n1,1\n2,1_000\n3,٣\n4,0x10\n5,2\n", "3 unreadable", points=2)
holds("a loss that is no number", "step,loss\n1,1\n2,nan\n3,nan\n", "is nan", Health.DIVERGED, 1)
holds("a loss without bounds", '{"loss": 1}\n{"loss": 1e309}\n', "is inf", Health.DIVERGED, 1)
holds("a number of 400 digits", f'{{"step": 1, "loss": {"9" * 400}}}\n', "is 999", Health.DIVERGED)
holds(
    "a step past all counting",
    '{"step": 1e300, "loss": 1}\n{"step": 1, "loss": 1}\n',
    "has no step",
    points=1,
)
holds("the same key twice", '{"step": 1, "loss": 5, "loss": 1}\n{"step": 2, "loss": 1}\n', points=2)
holds("half a surrogate as a key", '{"\\ud800": 1, "step": 1, "loss": 1}\n{"step": 2, "loss": 1}\n', points=2)
holds("a value that steers terminals", "step,loss\n1,1\n2,\x1b[2J\u202e\n", r"'\x1b[2J\u202e'", points=1)
holds(
    "a key that steers terminals",
    '{"a\\u001b[2J\\u202eloss": 1, "b\\rloss": 2}\n',
    r"a\x1b[2J\u202eloss, b\rloss",
    Health.AMBIGUOUS,
)
holds("text that steers terminals", "\x1b]0;owned\x07\r\u202e loss\n" * 3, health=Health.UNKNOWN_FORMAT)
holds("a pattern's nightmare", "loss=" + "a" * 3000 + "!\n" + rows(), points=4)
