"""Carries out the actions on one job. Whatever goes wrong is that job's outcome alone."""

from __future__ import annotations

import os

from slaqd.errors import AdapterUnavailable
from slaqd.types import (
    Accepted,
    Action,
    Admit,
    Adopt,
    Lever,
    Outcome,
    Refused,
    Restore,
    SetUnits,
    State,
    Unknown,
)
from slaqd_local import rows
from slaqd_local.accounts import Accounts
from slaqd_local.holder import Holder
from slaqd_local.sight import View


class Acts:
    """Knows how to hold a job and how to give it back."""

    def __init__(self, holder: Holder, accounts: Accounts, unit_milli: int, all_units: int) -> None:
        self._holder = holder
        self._accounts = accounts
        self._unit_milli = unit_milli
        self._all_units = all_units

    def one(self, action: Action, view: View | None, boot: str) -> Outcome:
        """Do one action."""
        if view is None:
            return Refused(f"no job {action.key} is registered here")
        if action.incarnation not in {"", boot}:
            return Refused("the machine has been started anew since this was planned")
        if view.state is State.ENDED:
            return Accepted() if isinstance(action, Restore) else Refused("the job has ended")
        try:
            why = self._restore(view) if isinstance(action, Restore) else self._hold(action, view)
        except OSError as error:
            return Refused(str(error), retry=True)
        except AdapterUnavailable as error:
            return Unknown(f"{error}: what became of it shows when it is looked at again")
        return Accepted() if why is None else why

    def _restore(self, view: View) -> Refused | None:
        notes, key = view.notes, view.registration.key
        consumed = self._accounts.of(key).consumed(notes, view.seen, view.family)
        if notes.hold is not None:
            self._holder.give_back(key, view.registration.owner.uid, notes.hold)
        if notes.hold is not None and not view.under_quota:
            notes.set_free(consumed)  # by its owner's word on its lever: it is slaqd's job still
        else:
            notes.set_restored(consumed)
        return None

    def _hold(self, action: Action, view: View) -> Refused | None:
        if isinstance(action, Restore):
            raise TypeError(action)
        refused = self._bars(action, view)
        if refused is not None:
            return refused
        if view.under_quota:
            self._open_account(view)
            why = self._under_quota(view, action.units * self._unit_milli)
            if why is not None:
                return Refused(why, retry=True)
        view.notes.take_back()
        if isinstance(action, Admit):
            view.notes.admit()
        return None

    def _under_quota(self, view: View, milli: int) -> str | None:
        key, owner = view.registration.key, view.registration.owner
        return self._holder.hold(key, owner.uid, view.notes, view.pids, milli)

    def _bars(self, action: Admit | Adopt | SetUnits, view: View) -> Refused | None:
        lever, why = rows.lever(view.registration)
        bounds = rows.sizes(view.registration, self._all_units)
        sets, waits = isinstance(action, SetUnits), view.state is State.WAITING
        rules = (
            (lever is not Lever.CPUS and not isinstance(action, Admit), why or f"its lever is {lever}"),
            (
                not bounds.min <= action.units <= bounds.max,
                f"{action.units} units are outside its bounds, {bounds.min} to {bounds.max}",
            ),
            (sets and waits, "it waits for its admission"),
            (sets and view.notes.restored, "it was given back by request: adopt it first"),
            (os.getpgrp() == int(view.registration.key.id), "slaqd runs in this process group itself"),
            (view.gap is not None, view.gap or ""),
        )
        broken = next((text for holds, text in rules if holds), None)
        return None if broken is None else Refused(broken, retry=view.gap is not None)

    def _open_account(self, view: View) -> None:
        # Counting starts where the hold starts; a hold that goes on goes on counting.
        if view.notes.hold is not None and view.seen is not None:
            return
        if view.notes.base is None or view.notes.hold is None:
            view.notes.set_base(view.family.seconds())
            self._accounts.of(view.registration.key).restart()
