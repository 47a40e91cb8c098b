"""Where a process keeps what the next one needs to take its session up."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import IO, Any, Protocol

from .core.errors import ParlanceError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class Store(Protocol):
    """Keeps one text for each key. Its methods are called often and have to be quick."""

    def open(self) -> None:
        """Begin; raise `ParlanceError` if another process uses it."""

    def get(self, key: str) -> str | None:
        """Return what was kept under a key."""

    def set(self, key: str, value: str | None) -> None:
        """Keep a text before this returns; `None` removes it."""

    def close(self) -> None:
        """End."""


class MemoryStore:
    """Keeps it in memory, for tests, and for objects that follow each other in one process."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def open(self) -> None:
        """Do nothing."""

    def get(self, key: str) -> str | None:
        """Return what was kept under a key."""
        return self._values.get(key)

    def set(self, key: str, value: str | None) -> None:
        """Keep a text."""
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def close(self) -> None:
        """Do nothing."""


class FileStore(MemoryStore):
    """Keeps what resuming takes in a file, which the next process of this program reads.

    The file has a token of the session: it is readable by its owner alone. It is locked while it is used, so that a
    second process is refused in place of taking the session away.

    Parameters
    ----------
    path : str or path-like
        A file in a folder that is there; `path` with `.lock` is used as well.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self._path = Path(path)
        self._lock: IO[Any] | None = None

    def open(self) -> None:
        """Lock the file and read it.

        Raises
        ------
        ParlanceError
            `invalid_option` if another process or session uses it, `unsupported` on systems without file locks.
        """
        if fcntl is None:
            raise ParlanceError("unsupported", "FileStore needs file locks of POSIX, which this system lacks")
        lock = open(f"{self._path}.lock", "a")  # noqa: SIM115 - it stays open as long as the session
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise ParlanceError(
                "invalid_option",
                f"{self._path} is used by another process or session; each one needs a file of its own",
            ) from None
        self._lock = lock
        try:
            values = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            values = {}
        self._values = values if isinstance(values, dict) else {}

    def set(self, key: str, value: str | None) -> None:
        """Write the file anew, in one step."""
        super().set(key, value)
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(self._values, file)
            os.replace(name, self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise

    def close(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
