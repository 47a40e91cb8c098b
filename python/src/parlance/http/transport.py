"""What `parlance.httpx.HttpTransport` and `parlance.httpx2.HttpTransport` share."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from types import ModuleType
from typing import Any, Final, TypeVar

from ..core.errors import ParlanceError, RequestError
from ..session import Session
from .fetch import HttpResponse, fetch
from .own_thread import OwnThread

Value = TypeVar("Value")

#: Bodies of a known size up to this one are sent with their request, which saves a round trip.
_SHORT: Final = 1024 * 1024
#: Exceptions of httpx by the codes of ours; any other one is a `ReadError`.
_EXCEPTIONS: Final = {
    "session_closed": "ConnectError",
    "connection_failed": "ConnectError",
    "rejected": "ConnectError",
    "draining": "ConnectError",
    "unsupported": "UnsupportedProtocol",
    "invalid_argument": "LocalProtocolError",
    "message_too_large": "LocalProtocolError",
    "metadata_too_large": "LocalProtocolError",
}
_ON_ITS_LOOP: Final = (
    "a synchronous client would block the event loop of its session: use the asynchronous one, or call it by"
    " asyncio.to_thread"
)


class _Bound:
    """The time-outs of httpx for one request.

    `read` is the time until the head, and between two pieces of the body; `write` the one between two pieces of a body
    that is streamed. A lost connection is silence. `connect` and `pool` have no meaning, as the session is open.
    """

    def __init__(self, library: ModuleType, given: dict[str, float | None]) -> None:
        self._library = library
        self._read = given.get("read")
        self._write = given.get("write")
        self._phase = "read"
        self._timer: asyncio.Timeout | None = None

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Bound what is read here."""
        try:
            async with asyncio.timeout(self._read) as timer:
                self._timer = timer
                try:
                    yield
                finally:
                    self._timer = None
        except TimeoutError as error:
            why = f"nothing within {self._write if self._phase == 'write' else self._read} s"
            raise getattr(self._library, "WriteTimeout" if self._phase == "write" else "ReadTimeout")(why) from error

    async def writing(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the pieces of a body."""
        async for chunk in body:
            self._begin("write", self._write)
            yield chunk
        self._begin("read", self._read)

    def _begin(self, phase: str, within: float | None) -> None:
        self._phase = phase
        if self._timer is not None:
            self._timer.reschedule(None if within is None else asyncio.get_running_loop().time() + within)


class ResponseBody:
    """The body of a response, for clients of both kinds."""

    def __init__(self, transport: Transport, response: HttpResponse, bound: _Bound) -> None:
        self._transport = transport
        self._response = response
        self._bound = bound

    async def _next(self) -> bytes | None:
        with self._transport.exceptions():
            async with self._bound.reading():
                return await self._response.next()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while (chunk := await self._next()) is not None:
                yield chunk
        finally:
            await self.aclose()

    def __iter__(self) -> Iterator[bytes]:
        try:
            while (chunk := self._transport.call(self._next)) is not None:
                yield chunk
        finally:
            self.close()

    async def aclose(self) -> None:
        """Cancel the request at the other end, unless all of it was read."""
        await self._response.aclose()

    def close(self) -> None:
        """Do the same from another thread."""
        with contextlib.suppress(ParlanceError):
            self._transport.call(self._response.aclose)


class Transport:
    """A transport of httpx whose requests travel in a session.

    `AsyncClient(transport=HttpTransport(session))` belongs into the event loop of the session. `Client(transport=…)`
    works in any other thread: it hands its requests over to that loop. A program without a loop gives the URL in place
    of the session, with options of `parlance.connect`: the transport then opens a session in a thread of its own with
    the first request, and `close` closes it.

    Only path and query of a URL are sent, as the session has one other end; credentials are not, as it knows who asks.
    Failures are the exceptions of httpx, so that clients repeat requests as they do over HTTP.

    Parameters
    ----------
    session : Session or str
    **options
        With a URL: those of `parlance.connect`.

    Raises
    ------
    ParlanceError
        `invalid_argument` if it is neither.
    """

    _library: ModuleType
    _body: Callable[[Transport, HttpResponse, _Bound], Any]

    def __init__(self, session: Session | str, **options: Any) -> None:
        self._own: OwnThread | None = None
        self._session: Session | None = None
        if isinstance(session, str):
            self._own = OwnThread(session, options)
        elif isinstance(session, Session) and not options:
            self._session = session
        else:
            expected = "expected a session, or a URL and options of connect"
            raise ParlanceError("invalid_argument", f"HttpTransport: {expected}")

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request of an asynchronous client."""
        if self._session is None:
            why = (
                "an asynchronous client needs a session of its event loop: async with parlance.connect(url) as session"
            )
            raise ParlanceError("invalid_argument", why)
        return await self._send(self._session, request, _pieces_of(request.stream))

    def handle_request(self, request: Any) -> Any:
        """Send a request of a synchronous client, which runs in another thread than the session."""
        with self.exceptions():
            session = self._session if self._own is None else self._own.session()
        assert session is not None  # noqa: S101 - one of both is there
        return self.call(lambda: self._send(session, request, _in_threads(iter(request.stream))))

    async def aclose(self) -> None:
        """Leave the session open: it belongs to the application."""

    def close(self) -> None:
        """Close the session if this transport has opened it."""
        if self._own is not None:
            self._own.close()

    def call(self, make: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
        """Run a coroutine on the loop of the session, from another thread.

        Raises
        ------
        ParlanceError
            `unsupported` on that loop.
        """
        loop = self._own.loop if self._own is not None else self._session.loop if self._session is not None else None
        with contextlib.suppress(RuntimeError):
            if asyncio.get_running_loop() is loop:
                raise ParlanceError("unsupported", _ON_ITS_LOOP)
        if loop is None or loop.is_closed():
            raise self._library.ConnectError("the session is closed")
        future: Future[Value] = asyncio.run_coroutine_threadsafe(make(), loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @contextlib.contextmanager
    def exceptions(self) -> Iterator[None]:
        """Raise what httpx has for an error of ours."""
        try:
            yield
        except RequestError as error:
            # The other end has ended the request, as a server that closes a connection does.
            raise self._library.RemoteProtocolError(str(error)) from error
        except ParlanceError as error:
            name = _EXCEPTIONS.get(error.code, "ReadError")
            raise getattr(self._library, name)(str(error)) from error

    async def _send(self, session: Session, request: Any, pieces: AsyncIterator[bytes]) -> Any:
        bound = _Bound(self._library, request.extensions.get("timeout") or {})
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in _joined(request.headers.raw)
        }
        length = headers.get("content-length", "")
        size = int(length) if length.isascii() and length.isdigit() else None
        if size is None and "transfer-encoding" not in headers:
            size = 0
        body: bytes | AsyncIterator[bytes]
        if size is not None and size <= _SHORT:
            body = b"".join([piece async for piece in pieces])
        else:
            body = bound.writing(pieces)
        path = request.url.raw_path.decode("ascii")
        with self.exceptions():
            if request.url.scheme not in ("http", "https"):
                raise ParlanceError("unsupported", f"a URL of {request.url.scheme}")
            async with bound.reading():
                response = await fetch(session, path, method=request.method, headers=headers, body=body, size=size)
        fields = [(name.encode("ascii"), value.encode("latin-1")) for name, value in response.headers.items()]
        extensions = {"http_version": b"HTTP/1.1"}
        stream = self._body(self, response, bound)
        return self._library.Response(response.status, headers=fields, stream=stream, extensions=extensions)


def _joined(pairs: list[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    values: dict[bytes, list[bytes]] = {}
    for name, value in pairs:
        values.setdefault(name.lower(), []).append(value)
    for name, all_values in values.items():
        yield name, b", ".join(all_values)


async def _pieces_of(stream: Any) -> AsyncIterator[bytes]:
    async for piece in stream:
        yield piece


async def _in_threads(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Read a body that may block, such as a file."""
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece
