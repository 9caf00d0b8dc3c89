"""One user's turn in a look: where anything may have grown, a child reads it.

A turn is a thread, for it wears the user's file-system rights and may hang in a file
system of that user's. It is left behind then, and another one goes on without the
source that hung.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from glob import has_magic
from pathlib import Path

from slaqd import mounts
from slaqd.agent.become import UnknownUserError, User, find, wear
from slaqd.agent.child import MOST_STATE
from slaqd.agent.forker import Forker
from slaqd.agent.growth import Signature, signature
from slaqd.agent.protocol import (
    LONGEST,
    MOST,
    MOST_OF_CHILD,
    ClosedError,
    Done,
    Failed,
    Item,
    Read,
    Reading,
    Result,
    Source,
    receive,
    send,
    unpack,
)
from slaqd.agent.quarantine import together
from slaqd.text import show

SOURCE_S = 1.0
"""Seconds that one look at one source, or the reading of it, may take."""

USER_S, READ_S = 3.0, 1.0
"""Seconds that one user's turn may take, however slow that user's file systems are, for others wait for it;
and those of them in which nothing is looked for any more, lest nothing that was found be read.
"""

MOST_OF_ALL, MOST_OF_ONE = 48 * 1024 * 1024, 8 * 1024 * 1024
"""Bytes that are remembered of all users' logs; and of one user's: four times as many where each is usual."""
USUAL = 32 * 1024
"""Bytes that a usual log takes: 10 to 20 KiB. Some that mean harm take 256 KiB."""

SEARCH_S = 30.0
"""A glob is looked through anew so often at least, by a child, though nothing seems to have changed."""

HANGS = "the file system does not answer"
TOO_MUCH = "the logs of this user's jobs take too much memory to be followed"

_SPARE_S = 1.0
_USERS_S = 300.0


@dataclass(eq=False)
class Trail:
    """What is remembered of one source between two looks."""

    source: Source
    seen: Signature | None = None
    state: bytes = b""
    again: bool = False
    looked: int = 0
    """The number of the look that last came to it."""
    trouble: str = ""
    """What went wrong the last time that looking at it took too long, or ended its reader."""
    told: int = 0
    """A hash of the curve that was told last; 0 where none was, or something else since."""
    followed: str = ""
    """The file that a child found last."""
    searched: float = 0.0
    """When a child looked for it last, in monotonic seconds."""

    @property
    def device(self) -> int:
        """The device that it lay on when it was seen last; 0 where that is not known."""
        return self.seen.dev if self.seen else 0

    @property
    def is_safe(self) -> bool:
        """Tell whether the agent itself can look at it: it answered before, or is left to children."""
        return self.seen is not None or has_magic(self.source.path)

    def may_differ(self, seen: Signature | None) -> bool:
        """Tell whether a child has to look: there may be more to read, or a newer file that matches."""
        if self.again or seen is None or seen != self.seen:
            return True
        return has_magic(self.source.path) and time.monotonic() - self.searched >= SEARCH_S


@dataclass
class Space:
    """Bytes that the answer to one look may still take. Turns may overdraw it a little."""

    left: int = MOST // 2


@dataclass
class Budget:
    """Bytes that may still be remembered of all logs together, and what of all is each user's in any case."""

    left: int = MOST_OF_ALL
    fair: int = MOST_OF_ALL

    def allows(self, kept: int, more: int) -> bool:
        """Tell whether a user who would have ``kept`` bytes remembered may have ``more`` than before."""
        return self.left >= more or kept <= self.fair


class Users:
    """Users by uid, asked of the name service now and then."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, User]] = {}

    def find(self, uid: int) -> User:
        """See `slaqd.agent.become.find`."""
        at, user = self._known.get(uid, (0.0, None))
        if user is None or time.monotonic() - at > _USERS_S:
            user = find(uid)
            self._known[uid] = (time.monotonic(), user)
        return user


class Child:
    """One child that serves one user, as its agent sees it."""

    def __init__(self, forker: Forker, user: User, life_s: float) -> None:
        self._forker = forker
        self._pid, self._sock = forker.fork(user, life_s)

    def ask(self, item: Item, patience_s: float) -> Result:
        """Have it do something. ClosedError if it died of it; TimeoutError, and it is killed, if it hangs."""
        until = time.monotonic() + patience_s
        self._sock.settimeout(patience_s)
        try:
            send(self._sock, item)
            result: Result = receive(self._sock, Result, MOST_OF_CHILD, until=until)
        except TimeoutError:
            self._forker.kill(self._pid)
            self._sock.close()
            raise
        except OSError as error:
            self._sock.close()
            raise ClosedError("the process that read it died") from error
        return Failed(result.errno, show(result.text, LONGEST)) if isinstance(result, Failed) else result

    def close(self) -> None:
        """Let it end."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


@dataclass
class Task:
    """What a turn has to do, and what came of it."""

    uid: int
    now: float
    number: int
    left: list[Trail]
    deadline: float
    space: Space = field(default_factory=Space)
    budget: Budget = field(default_factory=Budget)
    kept: int = 0
    """Bytes that are remembered of this user's logs."""
    begun: float = 0.0
    ended: float = 0.0
    grown: list[tuple[Trail, Signature | None]] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    hung: list[Trail] = field(default_factory=list)
    missed: int = 0

    def begin(self) -> None:
        """Let the user's own time run from the first turn on."""
        if not self.begun:
            self.begun = time.monotonic()
            self.deadline = min(self.deadline, self.begun + USER_S)

    def is_over(self, rest_s: float = 0.0) -> bool:
        """Tell whether what is left has to be left for the next look; ``rest_s`` seconds are to be kept."""
        return time.monotonic() > self.deadline - rest_s or self.space.left <= 0

    def leave(self, hung: Trail) -> None:
        """Do without a source, and without those where it hangs: each would hang in its turn."""
        others = [*self.left, *(trail for trail, _ in self.grown)]
        same = beside(hung, others)
        self.hung += [hung, *same]
        gone = {hung, *same}
        self.left = [trail for trail in self.left if trail not in gone]
        self.grown = [(trail, seen) for trail, seen in self.grown if trail not in gone]


def beside(hung: Trail, others: Sequence[Trail]) -> list[Trail]:
    """Pick those on the file system of a source that hangs: by mounts' names, and as they were seen last."""
    try:
        points = [mount.point for mount in mounts.read() if mount.point != "/"]
    except OSError:
        points = []
    paths = together(hung.source.path, [trail.source.path for trail in others], points)
    device = hung.device if hung.device != Path("/").stat().st_dev else 0
    return [
        trail
        for trail in others
        if trail is not hung and (trail.source.path in paths or 0 < trail.device == device)
    ]


class Turn(threading.Thread):
    """Does one task; ``done`` gets the turn when it is over, however it ended."""

    def __init__(self, task: Task, users: Users, forker: Forker, done: queue.SimpleQueue[Turn]) -> None:
        super().__init__(name=f"uid-{task.uid}", daemon=True)
        self.task = task
        self.fault: BaseException | None = None
        self.abandoned = False
        self._at: Trail | None = None
        self._since = 0.0
        self._lock = threading.Lock()
        self._users, self._forker, self._done = users, forker, done

    def run(self) -> None:
        """See `threading.Thread.run`."""
        try:
            self._go()
        except BaseException as error:  # noqa: BLE001 - the agent judges it
            self.fault = error
        self.task.ended = time.monotonic()
        self._done.put(self)

    def leave_behind(self, now: float) -> Task | None:
        """Take the rest of the task away from a turn that hangs; None where it doesn't.

        Where it hangs in the name service already, the whole task is missed.
        """
        with self._lock:
            if self._at is None or now - self._since <= SOURCE_S:
                return None
            self.abandoned = True
            self._at.trouble = HANGS
            self.task.leave(self._at)
            return self.task

    def _go(self) -> None:
        task = self.task
        if not task.left and not task.grown:
            return
        task.begin()
        first = (task.left or [task.grown[0][0]])[0]
        if not self._begin(first):
            return
        try:
            user = self._users.find(task.uid)
        except UnknownUserError as error:
            if self._end():
                for trail in task.left:
                    self._refuse(trail, str(error))
                task.left = []
            return
        wear(user)
        if self._end() and self._look():
            self._read(user)

    def _begin(self, trail: Trail) -> bool:
        with self._lock:
            self._at, self._since = trail, time.monotonic()
            return not self.abandoned

    def _end(self) -> bool:
        with self._lock:
            self._at = None
            return not self.abandoned

    def _look(self) -> bool:
        """Find out what may have grown; False where somebody else goes on meanwhile."""
        task = self.task
        while task.left and not task.is_over(READ_S):
            trail = task.left[0]
            if not self._begin(trail):
                return False
            seen = signature(trail.source, trail.followed)
            with self._lock:
                if self.abandoned:
                    return False
                self._at = None
                task.left.pop(0)
                if trail.may_differ(seen):
                    task.grown.append((trail, seen))
                else:
                    trail.looked = task.number
        return True

    def _read(self, user: User) -> None:
        task = self.task
        child: Child | None = None
        try:
            while task.grown and not task.is_over():
                # It stays there until it is dealt with: a fault is said of it too.
                trail, seen = task.grown[0]
                trail.looked = task.number
                try:
                    child = child or Child(self._forker, user, USER_S + SOURCE_S + _SPARE_S)
                    self._take(trail, seen, child.ask(Read(trail.source, trail.state, task.now), SOURCE_S))
                except TimeoutError:
                    child, trail.trouble = None, HANGS
                    task.leave(trail)
                except (ClosedError, BlockingIOError) as error:
                    if child is not None:
                        child.close()
                    child, trail.trouble = None, error.strerror or str(error)
                    task.hung.append(trail)
                    task.grown.pop(0)
                else:
                    task.grown.pop(0)
        finally:  # also after a fault of slaqd's own: no child is left waiting
            if child is not None:
                child.close()
        task.missed += len(task.grown)

    def _take(self, trail: Trail, seen: Signature | None, result: Result) -> None:
        if isinstance(result, Done):
            self._give(trail, result)
            followed, trail.followed = trail.followed, result.points.path
            trail.seen = seen if followed == trail.followed or not has_magic(trail.source.path) else None
            trail.again, trail.trouble, trail.searched = result.again, "", time.monotonic()
            self._remember(trail, result.state)
        elif isinstance(result, Failed):
            trail.seen, trail.state, trail.again = seen, b"", False
            self._refuse(trail, result.text)
        else:
            raise ClosedError("an answer to another question")

    def _give(self, trail: Trail, done: Done) -> None:
        """Take what a child gave, if it makes sense: it has read what a user wrote."""
        if len(done.state) > MOST_STATE:
            raise ClosedError("the process that read it remembers too much")
        try:
            unpack(done.points)
        except ValueError as error:
            raise ClosedError(str(error)) from error
        told = hash(done.points) or 1
        if told != trail.told:
            trail.told = told
            self._tell(Reading(trail.source.job, points=done.points), 3 * len(done.points.steps) + LONGEST)

    def _remember(self, trail: Trail, state: bytes) -> None:
        """Keep what the next child has to know, if this user's logs together don't take too much."""
        task, more = self.task, len(state) - len(trail.state)
        most = MOST_OF_ONE if len(state) > USUAL else 4 * MOST_OF_ONE
        if task.kept + more > most or not task.budget.allows(task.kept + more, more):
            more, state = -len(trail.state), b""
            self._refuse(trail, f"{show(trail.source.path)}: {TOO_MUCH}")
        task.kept += more
        task.budget.left -= more
        trail.state = state

    def _refuse(self, trail: Trail, why: str) -> None:
        trail.told = 0
        self._tell(Reading(trail.source.job, refused=why), len(why))

    def _tell(self, reading: Reading, size: int) -> None:
        self.task.readings.append(reading)
        self.task.space.left -= size


def parted(trails: Sequence[Trail]) -> dict[int, list[Trail]]:
    """Sort sources by whose they are; longest not looked at first, troubled ones last."""
    found: dict[int, list[Trail]] = {}
    for trail in sorted(trails, key=lambda each: (bool(each.trouble), each.looked)):
        found.setdefault(trail.source.uid, []).append(trail)
    return found
