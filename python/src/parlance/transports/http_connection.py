"""A connection over HTTP, by httpx2 or httpx, with the methods of a WebSocket of `websockets`."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import math
import ssl
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from websockets.exceptions import ConnectionClosedError
from websockets.frames import Close

from ..core import errors
from ..core.errors import ParlanceError, close_code_of, close_reason
from ..core.http_stream import MAX_GATHERED, HttpStream

_LIBRARY: Final = next((name for name in ("httpx2", "httpx") if importlib.util.find_spec(name)), None)
#: The packages of the extra `http` are there.
AVAILABLE: Final = _LIBRARY is not None
#: Seconds in which the server has to read why a connection is closed.
_CLOSING: Final = 1.0
_OK: Final = 200
_TAKEN: Final = 204


async def open_http(url: str, most: int, within: float, options: dict[str, Any]) -> HttpConnection:
    """Ask for a stream, and wait for its key.

    Parameters
    ----------
    url : str
        That of the WebSocket.
    most : int
        The bytes of the longest frame of the server.
    within : float
        Seconds.
    options : dict
        Those of `websockets`: `additional_headers`, `ssl`, `proxy`.

    Raises
    ------
    ParlanceError
        `connection_failed`; not retryable if another attempt cannot help.
    """
    library: Any = importlib.import_module(_LIBRARY or "httpx2")
    proxy = options["proxy"]
    client = library.AsyncClient(
        headers={
            **options["additional_headers"],
            "content-type": "application/octet-stream",
            "accept-encoding": "identity",
        },
        # The certificates that a WebSocket trusts.
        verify=options.get("ssl") or (ssl.create_default_context() if url.startswith("wss:") else True),
        trust_env=proxy is True,
        proxy=proxy if isinstance(proxy, str) else None,
        timeout=None,
    )
    connection = HttpConnection(client, url, HttpStream(most), library.HTTPError)
    try:
        async with asyncio.timeout(within):
            await connection.open()
    except BaseException as error:
        await connection.close()
        if isinstance(error, TimeoutError):
            why = f"{url} has not answered over HTTP within {within:g} s"
            raise ParlanceError("connection_failed", why, retryable=True) from error
        if isinstance(error, (library.HTTPError, library.InvalidURL)):
            why = f"{url} cannot be reached over HTTP: {error or type(error).__name__}"
            raise ParlanceError("connection_failed", why, retryable=True) from error
        raise
    return connection


class HttpConnection:
    """One streamed response, and requests with frames beside it, of which one at a time is under way."""

    def __init__(self, client: Any, url: str, core: HttpStream, failure: type[Exception]) -> None:
        parts = urlsplit(url)
        self._url = url
        base = urlunsplit(("https" if parts.scheme == "wss" else "http", parts.netloc, parts.path, "", ""))
        query = f"?{parts.query}" if parts.query else ""
        self._stream_url, self._frames_url = f"{base}/stream{query}", f"{base}/frames{query}"
        self._client = client
        self._core = core
        self._failure = failure
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._closing = asyncio.Lock()
        self._frames: list[bytes] = []
        self._response: Any = None
        self._chunks: AsyncIterator[bytes]
        self._wake = asyncio.Event()
        self._taken = asyncio.Event()
        self._uploads: asyncio.Task[None] | None = None
        #: The code with which this end has closed, if the bytes of the server were at fault.
        self.close_code: int | None = None

    async def open(self) -> None:
        """Make the request for the stream."""
        request = self._client.build_request("POST", self._stream_url, content=b"")
        self._response = response = await self._client.send(request, stream=True)
        status = response.status_code
        # Some servers have a page for each path.
        if status != _OK or response.headers.get("content-type", "").startswith("text/"):
            why = f"{self._url} answered HTTP {status} in place of a session over HTTP"
            retryable = status in (408, 425, 429) or status >= 500
            raise ParlanceError("connection_failed", why, retryable=retryable)
        self._chunks = response.aiter_raw()
        while not self._core.is_open:
            if self._is_over:
                raise ParlanceError(
                    "connection_failed", f"{self._url} has ended its response over HTTP", retryable=True
                )
            await self._read()
        self._uploads = asyncio.create_task(self._upload())

    @property
    def _is_over(self) -> bool:
        return self._over.done() or self._core.closed is not None

    def _ended(self) -> ConnectionClosedError:
        closed = self._core.closed
        return ConnectionClosedError(Close(*closed) if closed is not None else None, None)

    async def recv_all(self) -> list[bytes]:
        """Return the frames of the server that have arrived; it waits for the first.

        Raises
        ------
        ConnectionClosedError
        """
        while not self._frames:
            if self._is_over:
                raise self._ended()
            await self._read()
        frames, self._frames = self._frames, []
        return frames

    async def _read(self) -> None:
        """Read what has arrived; `close` of another task interrupts it."""
        reading = asyncio.ensure_future(anext(self._chunks, None))
        try:
            await asyncio.wait((reading, self._over), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if reading.cancel():
                await asyncio.gather(reading, return_exceptions=True)
            elif not reading.cancelled():
                # Nobody else asks for it if the connection is over.
                reading.exception()
        if self._over.done():
            return
        try:
            data = reading.result()
            if data is None:
                self._end()
            else:
                self._frames += self._core.receive(data)
                self._wake.set()
        except self._failure:
            self._end()
        except ParlanceError as error:
            self.close_code = close_code_of(error)
            await self.close(self.close_code, close_reason(error))

    async def send_all(self, frames: list[bytes]) -> None:
        """Send frames; it waits while much does.

        Raises
        ------
        ConnectionClosedError
        """
        for frame in frames:
            self._core.push(frame, self._loop.time())
        self._wake.set()
        while self._core.waiting > MAX_GATHERED and not self._is_over:
            self._taken.clear()
            await self._taken.wait()
        if self._is_over:
            raise self._ended()

    async def _upload(self) -> None:
        core, loop = self._core, self._loop
        try:
            while not core.is_last:
                due = core.due
                if due > loop.time():
                    self._wake.clear()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout_at(None if due == math.inf else due):
                            await self._wake.wait()
                    continue
                request = self._client.build_request("POST", self._frames_url, content=core.next_request())
                self._taken.set()
                response = await self._client.send(request, stream=True)
                if response.status_code != _TAKEN:
                    await response.aclose()
                    return
                await response.aread()
                core.answered()
        except self._failure:
            pass
        finally:
            self._end()

    def _end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)
        self._taken.set()

    async def close(self, code: int = errors.NORMAL, reason: str = "") -> None:
        """Tell the server why, if it has not ended the connection before, and end it."""
        async with self._closing:
            if not self._is_over and self._uploads is not None:
                self._core.close(code, reason)
                self._wake.set()
                await asyncio.wait((self._uploads,), timeout=_CLOSING)
            self._end()
            if self._uploads is not None:
                self._uploads.cancel()
                await asyncio.gather(self._uploads, return_exceptions=True)
            if self._response is not None:
                await self._response.aclose()
            await self._client.aclose()

    async def wait_closed(self) -> None:
        """Wait for the end of the connection."""
        await asyncio.wait((self._over,))
