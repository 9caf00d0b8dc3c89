"""The same where slaqd serves the one user that it runs as: nothing changes identity."""

from __future__ import annotations

import os
from typing import TypeVar

from slaqd.agent import files
from slaqd.errors import AgentUnavailable
from slaqd.types import Struct

T = TypeVar("T")


class Oneself:
    """Acts as the one user slaqd runs as; see `slaqd.adapter.AsUser`."""

    agent = False

    def put(self, uid: int, root: str, path: str, text: bytes) -> None:
        """See `slaqd.adapter.AsUser.put`."""
        self._check(uid)
        files.put(uid, root, path, text)

    def get(self, uid: int, root: str, path: str) -> bytes | None:
        """See `slaqd.adapter.AsUser.get`."""
        self._check(uid)
        return files.get(uid, root, path)

    def hands(self, request: Struct, kind: type[T]) -> T:
        """See `slaqd.adapter.AsUser.hands`."""
        del request, kind
        raise AgentUnavailable("there is no slaqd-agent here: [agent] socket is empty")

    @staticmethod
    def _check(uid: int) -> None:
        own = os.geteuid()
        if uid != own:
            msg = f"slaqd runs as uid {own} without slaqd-agent: files of uid {uid} are out of its reach"
            raise PermissionError(msg)
