"""What may lie in place of the file, and ways that lead elsewhere (T1, T2)."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from agent_world import ALICE, BOB, Trees, own
from hostile_case import DENIED, NAMES, NO_FILE, NO_LINKS, NOT_HERS, OUT, case

# what stands in place of the file (T1)


@case("a file of one's own", points=4)
def _(trees: Trees) -> Path:
    return trees.file(trees.alice / "log")


@case("a link to one's own file", NO_LINKS)
def _(trees: Trees) -> Path:
    return trees.link(trees.alice / "log", trees.file(trees.alice / "other"))


@case("a link to a file of Bob's that all may read", NO_LINKS)
def _(trees: Trees) -> Path:
    return trees.link(trees.alice / "log", trees.file(trees.bob / "log", uid=BOB))


@case("a link to a private file of Bob's", NO_LINKS)
def _(trees: Trees) -> Path:
    return trees.link(trees.alice / "log", trees.file(trees.bob / "log", uid=BOB, mode=0o600))


@case("a link to a file of root's that all may read", NO_LINKS)
def _(trees: Trees) -> Path:
    return trees.link(trees.alice / "log", trees.file(trees.root / "log", uid=0))


@case("a link to the passwords", NO_LINKS)
def _(trees: Trees) -> Path:
    return trees.link(trees.alice / "log", "/etc/shadow")


@case("a link that leads nowhere", NO_LINKS)
def _(trees: Trees) -> Path:
    return trees.link(trees.alice / "log", "nothing")


@case("a link to itself", NO_LINKS)
def _(trees: Trees) -> Path:
    return trees.link(trees.alice / "log", "log")


@case("two links in a circle", NO_LINKS)
def _(trees: Trees) -> Path:
    trees.link(trees.alice / "other", "log")
    return trees.link(trees.alice / "log", "other")


@case("a chain of links to a file of Bob's", NO_LINKS)
def _(trees: Trees) -> Path:
    trees.file(trees.bob / "log", uid=BOB)
    trees.link(trees.alice / "1", trees.bob / "log")
    for number in range(2, 30):
        trees.link(trees.alice / str(number), str(number - 1))
    return trees.link(trees.alice / "log", "29")


@case("a directory that is a link to another of one's own", NO_LINKS)
def _(trees: Trees) -> Path:
    trees.file(trees.folder(trees.alice / "real") / "log")
    return trees.link(trees.alice / "dir", "real") / "log"


@case("a directory that is a link to Bob's", NO_LINKS)
def _(trees: Trees) -> Path:
    trees.file(trees.bob / "log", uid=BOB)
    return trees.link(trees.alice / "dir", trees.bob) / "log"


@case("a directory that is a link to the root", NO_LINKS)
def _(trees: Trees) -> Path:
    return trees.link(trees.alice / "dir", "/") / "etc" / "passwd"


@case("a directory outside that is a link to Bob's", NOT_HERS)
def _(trees: Trees) -> Path:
    trees.file(trees.bob / "log", uid=BOB)
    return trees.link(trees.top / "dir", trees.bob) / "log"


@case("a link to what the agent has open", NO_LINKS)
def _(trees: Trees) -> Path:
    return trees.link(trees.alice / "log", "/proc/self/fd/4")


@case("a link to the first process's environment", NO_LINKS)
def _(trees: Trees) -> Path:
    return trees.link(trees.alice / "log", "/proc/1/environ")


@case("a link to a device", NO_LINKS)
def _(trees: Trees) -> Path:
    return trees.link(trees.alice / "log", "/dev/zero")


@case("what the agent has open", NO_LINKS)
def _(_trees: Trees) -> str:
    return "/proc/self/fd/4"


@case("the agent's own environment", DENIED)
def _(_trees: Trees) -> str:
    return "/proc/self/environ"


@case("the agent's own memory", DENIED)
def _(_trees: Trees) -> str:
    return "/proc/self/mem"


@case("the agent's own thread", NOT_HERS)
def _(_trees: Trees) -> str:
    return "/proc/thread-self/status"


@case("the first process's environment", DENIED)
def _(_trees: Trees) -> str:
    return "/proc/1/environ"


@case("a file of Bob's, by the agent's root directory", NOT_HERS)
def _(trees: Trees) -> str:
    return f"/proc/self/root{trees.file(trees.bob / 'log', uid=BOB)}"


@case("zeros without an end", NO_FILE)
def _(_trees: Trees) -> str:
    return "/dev/zero"


@case("a pipe", NO_FILE)
def _(trees: Trees) -> Path:
    os.mkfifo(trees.alice / "log")
    return own(trees.alice / "log", ALICE, 0o644)


@case("a socket", NO_FILE)
def _(trees: Trees) -> Path:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(trees.alice / "log"))
    return own(trees.alice / "log", ALICE, 0o644)


@case("a device without an end", NO_FILE)
def _(trees: Trees) -> Path:
    os.mknod(trees.alice / "log", stat.S_IFCHR | 0o644, os.makedev(1, 5))
    return own(trees.alice / "log", ALICE, 0o644)


@case("a device that nobody made", NO_FILE)
def _(trees: Trees) -> Path:
    os.mknod(trees.alice / "log", stat.S_IFCHR | 0o644, os.makedev(60, 1))
    return own(trees.alice / "log", ALICE, 0o644)


@case("a disk", NO_FILE)
def _(trees: Trees) -> Path:
    os.mknod(trees.alice / "log", stat.S_IFBLK | 0o644, os.makedev(1, 0))
    return own(trees.alice / "log", ALICE, 0o644)


@case("the terminal", NO_FILE)
def _(_trees: Trees) -> str:
    return "/dev/tty"


@case("a directory", "is a directory")
def _(trees: Trees) -> Path:
    return trees.folder(trees.alice / "log")


@case("the job's own directory", "is a directory")
def _(trees: Trees) -> Path:
    return trees.alice


@case("the root", "is a directory")
def _(_trees: Trees) -> str:
    return "/"


@case("a file with a slash behind it", "no directory")
def _(trees: Trees) -> str:
    return f"{trees.file(trees.alice / 'log')}/"


@case("a file as a directory", "no directory")
def _(trees: Trees) -> Path:
    return trees.file(trees.alice / "log") / "log"


# other names of the same file (T2)


@case("one's own file that has two names", NAMES)
def _(trees: Trees) -> Path:
    (trees.alice / "log").hardlink_to(trees.file(trees.alice / "other"))
    return trees.alice / "log"


@case("another name of a file of Bob's that all may read", NOT_HERS)
def _(trees: Trees) -> Path:
    (trees.alice / "log").hardlink_to(trees.file(trees.bob / "log", uid=BOB))
    return trees.alice / "log"


@case("another name of a private file of Bob's", DENIED)
def _(trees: Trees) -> Path:
    (trees.alice / "log").hardlink_to(trees.file(trees.bob / "log", uid=BOB, mode=0o600))
    return trees.alice / "log"


@case("the only name that is left of a file of Bob's", NOT_HERS)
def _(trees: Trees) -> Path:
    trees.file(trees.bob / "log", uid=BOB).rename(trees.alice / "log")
    return trees.alice / "log"


@case("another name of a file of root's", NOT_HERS)
def _(trees: Trees) -> Path:
    (trees.alice / "log").hardlink_to(trees.file(trees.root / "log", uid=0))
    return trees.alice / "log"


# ways that lead elsewhere


@case("up first", OUT)
def _(trees: Trees) -> str:
    return f"{trees.alice}/../bob/{trees.file(trees.bob / 'log', uid=BOB).name}"


@case("up and down again", OUT)
def _(trees: Trees) -> str:
    trees.file(trees.alice / "log")
    return f"{trees.alice}/../alice/log"


@case("up in the middle", OUT)
def _(trees: Trees) -> str:
    trees.file(trees.alice / "log")
    trees.folder(trees.alice / "dir")
    return f"{trees.alice}/dir/../log"


@case("up at the end", OUT)
def _(trees: Trees) -> str:
    return f"{trees.folder(trees.alice / 'dir')}/.."


@case("up outside", OUT)
def _(trees: Trees) -> str:
    trees.file(trees.bob / "log", uid=BOB)
    return f"{trees.root}/../bob/log"


@case("up above the root", OUT)
def _(_trees: Trees) -> str:
    return "/../../etc/passwd"


@case("a name of three dots", points=4)
def _(trees: Trees) -> Path:
    return trees.file(trees.alice / "...")


@case("many slashes and dots", points=4)
def _(trees: Trees) -> str:
    trees.file(trees.alice / "log")
    return f"{trees.alice}//.//././/log"


@case("one's own file elsewhere", points=4)
def _(trees: Trees) -> Path:
    return trees.file(trees.folder(trees.top / "elsewhere") / "log")


@case("a file of Bob's", NOT_HERS)
def _(trees: Trees) -> Path:
    return trees.file(trees.bob / "log", uid=BOB)


@case("a file of root's", NOT_HERS)
def _(_trees: Trees) -> str:
    return "/etc/passwd"


@case("the passwords", DENIED)
def _(_trees: Trees) -> str:
    return "/etc/shadow"


@case("a path that is not whole", OUT)
def _(_trees: Trees) -> str:
    return "etc/passwd"


@case("no path", OUT)
def _(_trees: Trees) -> str:
    return ""
