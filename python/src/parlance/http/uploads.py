"""Bodies of HTTP requests that are streamed: the end that answers asks for them by a request of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from ..core.errors import RequestError

if TYPE_CHECKING:
    from ..verbs import Verbs as Session

#: Bytes of a piece.
_PIECE: Final = 64 * 1024


class Upload:
    """A body that this end offers, once.

    Attributes
    ----------
    error : BaseException or None
        What the body has raised.
    withdrawn : asyncio.Event
        The request with this body is over.
    """

    def __init__(self, body: AsyncIterable[bytes]) -> None:
        self.body: AsyncIterator[bytes] = aiter(body)
        self.error: BaseException | None = None
        self.is_taken = False
        self.withdrawn = asyncio.Event()
        #: Called if the body cannot be read.
        self.on_failed: Any = None


class Uploads:
    """What a session offers."""

    def __init__(self) -> None:
        self._offered: dict[int, Upload] = {}
        self._last = 0

    def offer(self, upload: Upload) -> int:
        """Offer a body, and return its ID."""
        self._last += 1
        self._offered[self._last] = upload
        return self._last

    async def withdraw(self, number: int) -> None:
        """The request with this body is over."""
        upload = self._offered.pop(number, None)
        if upload is not None:
            upload.withdrawn.set()
            if not upload.is_taken:
                await _close(upload.body)

    async def answer(self, number: int, sender: str | None) -> AsyncIterator[bytes]:
        """Yield the pieces of a body. Only the other end itself gets it, not an agent behind it."""
        upload = self._offered.get(number) if sender is None else None
        if upload is None or upload.is_taken:
            raise _unknown()
        upload.is_taken = True
        try:
            while (chunk := await _next(upload)) is not None:
                for at in range(0, len(chunk), _PIECE):
                    yield chunk[at : at + _PIECE]
        finally:
            await _close(upload.body)


async def _next(upload: Upload) -> bytes | None:
    """Return the next chunk; a body that was cut short must not pass for a complete one."""
    reading = asyncio.ensure_future(anext(upload.body, None))
    leaving = asyncio.ensure_future(upload.withdrawn.wait())
    try:
        await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if upload.withdrawn.is_set():
            raise _unknown()
        chunk = reading.result()
        if chunk is not None and not isinstance(chunk, bytes | bytearray | memoryview):
            raise TypeError("a chunk of a body is not bytes")
        return chunk
    except (RequestError, asyncio.CancelledError):
        raise
    except Exception as error:
        upload.error = error
        upload.on_failed()
        raise RequestError("body_failed", "the body of the request could not be read") from error
    finally:
        for task in (reading, leaving):
            task.cancel()
        await asyncio.gather(reading, leaving, return_exceptions=True)


async def _close(body: Any) -> None:
    if hasattr(body, "aclose"):
        with suppress(Exception):
            await body.aclose()


def _unknown() -> RequestError:
    return RequestError("unknown_body", "the request with this body is over, or it was read before")


_uploads: Final[WeakKeyDictionary[Session, Uploads]] = WeakKeyDictionary()


def uploads_of(session: Session) -> Uploads:
    """Return what a session offers."""
    return _uploads.setdefault(session, Uploads())
