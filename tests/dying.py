"""A slaqd that is killed while it is asked."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def dying(path: Path) -> Iterator[None]:
    """Play a slaqd that takes one question, and is killed before it answers: its socket is left behind."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def end() -> None:
        asked, _ = listener.accept()
        asked.recv(65536)
        listener.close()
        asked.close()

    thread = threading.Thread(target=end)
    thread.start()
    yield
    thread.join()
