"""What the agent does for one slaqd: from a request to an answer, whatever users' file systems do."""

from __future__ import annotations

import errno
import queue
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import PurePosixPath

import msgspec
import structlog

import slaqd
from slaqd.adapter import Hands
from slaqd.agent.become import NotThatUserError, UnknownUserError
from slaqd.agent.forker import Forker
from slaqd.agent.protocol import (
    ClosedError,
    Failed,
    Gave,
    Get,
    Greeting,
    Hello,
    Look,
    Looked,
    Put,
    Reading,
    Reply,
    Request,
    Source,
    UseHands,
)
from slaqd.agent.quarantine import Quarantine, Rests
from slaqd.agent.turn import (
    HANGS,
    MOST_OF_ALL,
    SOURCE_S,
    Budget,
    Child,
    Space,
    Task,
    Trail,
    Turn,
    Users,
    parted,
)
from slaqd.errors import AgentUnavailable
from slaqd.text import show

LOOK_S = 5.0
"""Seconds that one look may take; what was not reached comes first in the next."""
AT_ONCE = 16
"""Users whose turns run at the same time."""
MOST_LOST, MOST_LOST_OF_ONE = 64, 4
"""Turns that may hang for good, in all and of one user; beyond it what hangs waits until one of them ends."""

_FAULT = "a fault of slaqd's own in reading this log; its trace is in slaqd-agent's log"
_WRITTEN, _READ = frozenset({"target.json"}), frozenset({"ack.json"})
"""All small files that there are between slaqd and a job: a slaqd taken over gets no other file to see."""
_TOO_SLOW = "this user's files answer too slowly, and others wait for them"
_SMALL_S, _OWN_S = 2.0, 0.2
"""Seconds that a small file may take, and that its child takes of itself: to have many jobs is not slow."""
_STEP_S = 0.05

log = structlog.get_logger("slaqd")


class Hangs:
    """What hangs. It outlives connections, lest each new one hang in the same places again."""

    def __init__(self) -> None:
        self.quarantine = Quarantine()
        self.files = Quarantine()
        """Users whose small files hang: by uid, for one job's directory is as good as another's."""
        self.slow, self.slow_files = Rests(5.0, share=0.25), Rests(0.5, share=0.1)
        """Users whose looks take long, and their small files: each is waited for by all others.
        What a few hangs take is free: they are the quarantine's, and her other logs are read on."""
        self._lost: list[Turn] = []

    def lose(self, turn: Turn) -> None:
        """Go on without a turn that hangs."""
        self._lost.append(turn)

    def lost(self) -> list[int]:
        """Give the uids of the turns that still hang."""
        self._lost = [turn for turn in self._lost if turn.is_alive()]
        return [turn.task.uid for turn in self._lost]

    def is_full(self, uid: int) -> bool:
        """Tell whether no more may be lost for this user."""
        lost = self.lost()
        return lost.count(uid) >= (MOST_LOST_OF_ONE if len(lost) < MOST_LOST else 1)


class Session:
    """What is remembered for one connection of slaqd's; a new one begins from nothing else.

    Parameters
    ----------
    forker
        Makes the children.
    least_uid
        Nothing is done for users below it: root and the system's own.
    hands
        The adapter's own verbs; None where it has none.
    hangs
        What hangs; one of its own where none is given.

    """

    def __init__(
        self, forker: Forker, least_uid: int, hands: Hands | None = None, hangs: Hangs | None = None
    ) -> None:
        self._forker = forker
        self._least_uid = max(least_uid, 1)
        self._hands = hands
        self._trails: dict[str, Trail] = {}
        self._users = Users()
        self._hangs = hangs or Hangs()
        self._quarantine = self._hangs.quarantine
        self._looks = 0

    def answer(self, request: Request) -> Reply:
        """Answer one request. Raises `AgentUnavailable` where the agent itself is broken and has to end."""
        try:
            return self._answer(request)
        except ClosedError as error:
            return Failed(errno.EIO, error.strerror or str(error))
        except TimeoutError as error:
            return Failed(errno.ETIMEDOUT, str(error))
        except (UnknownUserError, msgspec.MsgspecError) as error:
            return Failed(0, str(error))
        except OSError as error:
            return Failed(error.errno or 0, error.strerror or str(error))

    def _answer(self, request: Request) -> Reply:
        if isinstance(request, Look):
            return self._look(request)
        if isinstance(request, Hello):
            return Greeting(slaqd.__version__, self._least_uid)
        if isinstance(request, UseHands):
            return self._use_hands(request)
        return self._as_user(request)

    def _use_hands(self, request: UseHands) -> Reply:
        if self._hands is None:
            return Failed(errno.ENOSYS, "the adapter has no verbs for the agent")
        asked = msgspec.msgpack.decode(request.request, type=self._hands.Request)
        return Gave(msgspec.msgpack.encode(self._hands.do(asked)))

    def _as_user(self, request: Put | Get) -> Reply:
        self._check(request.uid)
        names = _WRITTEN if isinstance(request, Put) else _WRITTEN | _READ
        if PurePosixPath(request.path).name not in names:
            raise PermissionError(errno.EPERM, f"{show(request.path)}: not a file of the lever file's")
        name = str(request.uid)
        began = time.monotonic()
        self._let_rest(request, began)
        try:
            result = self._by_child(request)
        except TimeoutError as error:
            self._hangs.files.put([name], time.monotonic())
            raise TimeoutError(f"{show(request.path)}: {HANGS}") from error
        finally:  # also where it failed: others have waited all the same
            now = time.monotonic()
            self._hangs.slow_files.took(request.uid, max(now - began - _OWN_S, 0.0), now)
        self._hangs.files.release(name)
        return result

    def _let_rest(self, request: Put | Get, now: float) -> None:
        """Refuse what would make others wait again; `TimeoutError`."""
        hung = self._hangs.files.left(str(request.uid), now)
        slow = self._hangs.slow_files.left(request.uid, now)
        if hung or slow:
            why, left = HANGS if hung else _TOO_SLOW, max(hung, slow, 1.0)
            raise TimeoutError(f"{show(request.path)}: {why}; tried again in {left:.0f} s")

    def _by_child(self, request: Put | Get) -> Reply:
        child = Child(self._forker, self._users.find(request.uid), _SMALL_S + SOURCE_S)
        try:
            result = child.ask(request, _SMALL_S)
        finally:
            child.close()
        wrong = Failed(errno.EIO, "an answer to another question")
        return result if isinstance(result, Gave | Failed) else wrong

    def _check(self, uid: int) -> None:
        if uid < self._least_uid:
            raise PermissionError(errno.EPERM, self._too_low(uid))

    def _too_low(self, uid: int) -> str:
        return (
            f"slaqd-agent acts for users from uid {self._least_uid} up ([agent] least_uid); this is uid {uid}"
        )

    # looking

    def _look(self, request: Look) -> Looked:
        self._looks += 1
        self._remember(request.sources)
        now = time.monotonic()
        able = [trail for trail in self._trails.values() if trail.source.uid >= self._least_uid]
        rests = [trail for trail in able if self._hangs.slow.left(trail.source.uid, now)]
        free = self._free(able, now)
        tasks = self._tasks(free, request.now, now)
        self._run(tasks)
        for task in tasks:
            if task.ended > task.begun > 0:  # else it hangs still: its sources are left alone for that
                self._hangs.slow.took(task.uid, task.ended - task.begun, task.ended)
        readings = [reading for task in tasks for reading in self._read(task)]
        missed = sum(task.missed + len(task.left) for task in tasks)
        return Looked((*readings, *self._waiting([*free, *rests])), missed)

    def _free(self, able: Sequence[Trail], now: float) -> list[Trail]:
        """Pick the sources that are to be tried now."""
        full = {uid for uid in {trail.source.uid for trail in able} if self._hangs.is_full(uid)}
        return [
            trail
            for trail in able
            if not self._hangs.slow.left(trail.source.uid, now) and not self._left_alone(trail, full, now)
        ]

    def _tasks(self, free: Sequence[Trail], wall: float, now: float) -> list[Task]:
        space, kept = Space(), self._kept()
        budget = Budget(MOST_OF_ALL - kept.total(), MOST_OF_ALL // max(len(kept), 1))
        return [
            Task(uid, wall, self._looks, trails, now + LOOK_S, space, budget, kept[uid])
            for uid, trails in parted(free).items()
        ]

    def _remember(self, sources: Sequence[Source]) -> None:
        before = self._trails
        self._trails = {}
        for source in sources:
            trail = before.get(source.job)
            self._trails[source.job] = trail if trail and trail.source == source else Trail(source)
        self._quarantine.keep(set(self._trails))

    def _kept(self) -> Counter[int]:
        """Count the bytes remembered of each user's logs. Too many: those of who has most are forgotten."""
        kept = Counter[int]()
        for trail in self._trails.values():
            kept[trail.source.uid] += len(trail.state)
        for uid, most in kept.most_common():
            if kept.total() <= MOST_OF_ALL or most <= MOST_OF_ALL // len(kept):
                break
            for trail in self._trails.values():
                if trail.source.uid == uid:
                    trail.state, trail.seen = b"", None
            kept[uid] = 0
        return kept

    def _left_alone(self, trail: Trail, full: set[int], now: float) -> bool:
        """Tell whether a source is not to be tried now; the users in ``full`` may hang nowhere else."""
        job = trail.source.job
        if self._quarantine.left(job, now) > 0:
            return True
        return trail.source.uid in full and (self._quarantine.hangs(job) or not trail.is_safe)

    def _run(self, tasks: Sequence[Task]) -> None:
        """Give every task its turn, and do without those that hang."""
        done: queue.SimpleQueue[Turn] = queue.SimpleQueue()
        waiting, running = deque(tasks), set[Turn]()
        until = time.monotonic() + LOOK_S
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                running.add(self._start(waiting.popleft(), done))
            with suppress(queue.Empty):
                turn = done.get(timeout=_STEP_S)
                running.discard(turn)
                if turn.fault is not None and not turn.abandoned:
                    self._judge(turn)
            now = time.monotonic()
            for turn in list(running):
                rest = turn.leave_behind(now)
                if rest is not None:
                    running.discard(turn)
                    self._hangs.lose(turn)
                    if now < until and not self._hangs.is_full(rest.uid):
                        waiting.append(rest)

    def _start(self, task: Task, done: queue.SimpleQueue[Turn]) -> Turn:
        turn = Turn(task, self._users, self._forker, done)
        turn.start()
        return turn

    def _judge(self, turn: Turn) -> None:
        """Go on without a turn that failed; not where rights can't be laid down or nothing can be forked."""
        task, fault = turn.task, turn.fault
        if isinstance(fault, NotThatUserError | AgentUnavailable):
            raise AgentUnavailable(f"looking as uid {task.uid} failed: {fault}") from fault
        log.error("a turn failed", uid=task.uid, exc_info=fault)
        for trail in [*task.left, *(trail for trail, _ in task.grown)]:
            trail.told = 0
            task.readings.append(Reading(trail.source.job, refused=_FAULT))
        task.left = []

    def _read(self, task: Task) -> Iterable[Reading]:
        now = time.monotonic()
        for trail in task.hung:
            job = trail.source.job
            self._quarantine.put([job], now)
            trail.seen, trail.told = None, 0  # once it answers, its curve is told anew
            yield Reading(job, refused=self._why(trail, now))
        for reading in task.readings:
            if reading.points is not None:
                self._quarantine.release(reading.job)
            yield reading

    def _waiting(self, looked_at: Sequence[Trail]) -> Iterable[Reading]:
        """Say of those that were not looked at why not."""
        seen, now = {trail.source.job for trail in looked_at}, time.monotonic()
        for job, trail in self._trails.items():
            if job in seen:
                continue
            trail.told = 0  # once it answers, its curve is told anew
            low = trail.source.uid < self._least_uid
            yield Reading(job, refused=self._too_low(trail.source.uid) if low else self._why(trail, now))

    def _why(self, trail: Trail, now: float) -> str:
        left = self._quarantine.left(trail.source.job, now)
        return f"{show(trail.source.path)}: {trail.trouble or HANGS}; tried again in {max(left, 1.0):.0f} s"
