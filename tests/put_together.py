"""A loop with its verbs over the manager of memory, for tests of the daemon's rooms."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from slaqd import wire
from slaqd.act import Journal
from slaqd.adapter import Registration
from slaqd.clock import Clock
from slaqd.config import Config, EnforceSection, PolicySection, SlaqdSection
from slaqd.daemon.loop import Loop, Parts
from slaqd.daemon.verbs import Verbs
from slaqd.errors import JobGone
from slaqd.testing import FakeAdapter, FakeConfig, FakeManager, ManualClock
from slaqd.types import JobKey, Mode, Owner, Struct, Tag

MYSELF = Owner(uid=os.geteuid(), name="me")


class Manager(FakeManager):
    """Also knows process groups that nobody registered yet: 1 to 99 are mine, 100 on somebody else's."""


class Adapter(FakeAdapter):
    """Tells whose a group is before it is registered, as this machine's adapter does."""

    def owner(self, key: JobKey) -> Owner:
        number = int(key.id)
        if number <= 0 or key.start != 7:
            message = f"job {key} has ended or never was"
            raise JobGone(message)
        return MYSELF if number < 100 else Owner(uid=MYSELF.uid + 1, name="eve")


class Daemon:
    """All the parts of a slaqd but its process."""

    def __init__(
        self,
        folder: Path,
        *,
        mode: Mode = Mode.ENFORCE,
        policy: str = "slaq",
        units: int = 10,
        epoch_s: float = 3.0,
        clock: Clock | None = None,
        manager: FakeManager | None = None,
        enforce: EnforceSection | None = None,
        everybody: bool = False,
    ) -> None:
        self.clock = clock or ManualClock()
        self.manager = manager or Manager()
        self.journal = Journal(folder / "journal.sqlite")
        config = Config(
            slaqd=SlaqdSection(
                mode=mode,
                adapter="fake",
                epoch_s=epoch_s,
                state_dir=str(folder),
                socket=str(folder / "s.sock"),
            ),
            policy=PolicySection(name=policy),
            enforce=enforce or EnforceSection(),
            path=str(folder / "slaqd.toml"),
        )
        self.adapter = Adapter(FakeConfig(units=units), self.clock, self.journal, manager=self.manager)
        self.parts = Parts(
            config=config,
            clock=self.clock,
            adapter=self.adapter,
            journal=self.journal,
            run=self.journal.begin_run(self.clock.wall()),
        )
        self.loop = Loop(self.parts)
        self.verbs = Verbs(self.parts, self.loop, everybody=everybody)

    def start(
        self, number: int, *, waits: bool = False, name: str = "job", owner: Owner = MYSELF, **said: Any
    ) -> JobKey:
        """Register a job directly, as if the verb had been asked."""
        key = JobKey("fake", str(number), 7)
        tag = Tag(**{"min": 1, "max": 8, **said})
        self.journal.register(
            Registration(
                key=key,
                owner=owner,
                tag=tag,
                name=name,
                cwd="/",
                submitted=self.clock.wall() + number / 1000,
                waits=waits,
            )
        )
        return key

    def cycle(self) -> str:
        """Let an epoch go by and do one cycle."""
        if isinstance(self.clock, ManualClock):
            self.clock.advance(self.parts.config.slaqd.epoch_s)
        return self.loop.once()

    def held(self) -> dict[str, int]:
        return {key.id: units for key, units in self.manager.held.items()}

    def ask(
        self,
        verb: wire.Verb,
        kind: Any,
        args: Struct | Mapping[str, object] | None = None,
        uid: int = MYSELF.uid,
    ) -> Any:
        """Ask as the wire does, through bytes; a refusal comes back as `slaqd.wire.Failure`."""
        raw = msgspec.Raw(msgspec.json.encode({} if args is None else args))
        reply = self.verbs.answer(wire.Request(v=1, verb=verb, args=raw), uid)
        seen = msgspec.json.decode(wire.encode(reply), type=wire.Reply)
        if seen.error is not None:
            return seen.error
        assert isinstance(seen.ok, msgspec.Raw)
        return msgspec.json.decode(seen.ok, type=kind)


Make = Callable[..., Daemon]
Call = Callable[..., tuple[int, str, str]]
