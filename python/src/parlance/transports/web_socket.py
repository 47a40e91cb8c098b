"""Opening a WebSocket, and saying why one could not be opened."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Any, Final, cast
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI, WebSocketException
from websockets.protocol import State
from websockets.typing import Subprotocol

from ..core.errors import ParlanceError

_SUBPROTOCOL: Final = Subprotocol("m2m.v1")
_SCHEMES: Final = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_CLOSE_TIMEOUT: Final = 2.0
#: No more is read while so many bytes of frames wait for the session.
_MAX_UNREAD: Final = 1024 * 1024
#: The first byte of a binary frame that is a whole message, and of CLOSE, PING and PONG.
_WHOLE_BINARY: Final = 0x82
_CONTROL: Final = frozenset({0x88, 0x89, 0x8A})
#: How many bytes the length takes behind these second bytes.
_LONG: Final = {126: 2, 127: 8}


def check_url(url: str) -> str:
    """Return the URL of the WebSocket.

    Raises
    ------
    ParlanceError
        `invalid_option`.
    """
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        scheme = _SCHEMES.get(parts.scheme)
        if parts.username or parts.password:
            raise ParlanceError("invalid_option", "url: credentials belong in the option token")
        if scheme is not None and parts.hostname and parts.port != 0:
            return urlunsplit((scheme, parts.netloc, parts.path or "/", parts.query, ""))
    raise ParlanceError("invalid_option", f"url: expected ws://HOST/PATH or wss://HOST/PATH, not {url!r}")


class WebSocket(ClientConnection):
    """A WebSocket that reads and writes frames together: a coroutine or a system call for each costs most of its time.

    It takes whole binary frames out of what arrives. The library gets control frames, and everything from the first
    frame on that is something else.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._frames: list[bytes | str] = []
        self._size = 0
        #: The beginning of a frame, which is looked at again when so many bytes are there.
        self._rest = bytearray()
        self._needed = 0
        self._is_left = False
        self._arrived = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        """Take bytes of the server."""
        if self._is_left or self.protocol.state is State.CONNECTING:
            # It is not known where the frames of a server begin that speaks before it is asked.
            self._is_left = self._is_left or not data.endswith(b"\r\n\r\n")
            super().data_received(data)
            return
        if self._rest:
            # A long frame comes in many pieces, and is not copied with each of them.
            self._rest += data
            if len(self._rest) < self._needed:
                return
            data = bytes(self._rest)
        at, most, self._needed = 0, self.protocol.max_message_size or 0, 0
        while len(data) - at > 1:
            first, second = data[at : at + 2]
            start = at + 2 + _LONG.get(second, 0)
            length = int.from_bytes(data[at + 2 : start]) if second in _LONG else second
            is_control = first in _CONTROL and second < 126
            if not is_control and (first != _WHOLE_BINARY or second > 127 or length > most):
                self._leave(data[at:])
                return
            end = start + length
            if start > len(data) or end > len(data):
                self._needed = (start if start > len(data) else end) - at
                break
            if is_control:
                super().data_received(data[at:end])
                if self.protocol.state is not State.OPEN:
                    self._leave(data[end:])
                    return
            else:
                self._frames.append(data[start:end])
            at = end
        self._rest = bytearray(data[at:])
        self._size += at
        if self._frames:
            self._arrived.set()
        if self._size > _MAX_UNREAD:
            self.transport.pause_reading()

    def _leave(self, data: bytes) -> None:
        """Leave the rest of what arrives to the library."""
        self._is_left = True
        self._rest.clear()
        self._arrived.set()
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note of the end."""
        super().connection_lost(exc)
        self._is_left = True
        self._arrived.set()

    async def recv_all(self) -> list[bytes | str]:
        """Return the frames that have arrived; it waits for the first.

        Raises
        ------
        websockets.exceptions.ConnectionClosed
        """
        while not self._frames:
            if self._is_left:
                return [await self.recv()]
            self._arrived.clear()
            await self._arrived.wait()
        frames, self._frames, self._size = self._frames, [], 0
        self.transport.resume_reading()
        return frames

    async def send_all(self, frames: list[bytes]) -> None:
        """Send frames; it waits while the socket takes no more.

        Raises
        ------
        websockets.exceptions.ConnectionClosed
        """
        async with self.send_context():
            for frame in frames:
                self.protocol.send_binary(frame)
            self.transport.write(b"".join(self.protocol.data_to_send()))


async def open_web_socket(url: str, most: int, within: float, options: dict[str, Any]) -> WebSocket:
    """Open a WebSocket.

    Parameters
    ----------
    most : int
        The bytes of the longest frame of the server.
    within : float
        Seconds.

    Raises
    ------
    ParlanceError
        `connection_failed`; not retryable if another attempt cannot help.
    """
    try:
        connection = await connect(
            url,
            create_connection=WebSocket,
            subprotocols=[_SUBPROTOCOL],
            compression=None,
            ping_interval=None,
            open_timeout=within,
            close_timeout=_CLOSE_TIMEOUT,
            max_size=most,
            max_queue=64,
            write_limit=131_072,
            **options,
        )
    except InvalidStatus as error:
        status = error.response.status_code
        why = f"{url} answered HTTP {status} in place of a WebSocket; is the path right?"
        raise ParlanceError("connection_failed", why, retryable=status in (408, 425, 429) or status >= 500) from error
    except ssl.SSLCertVerificationError as error:
        why = f"the certificate of {url} is not trusted: {error.verify_message}; see the option ssl"
        raise ParlanceError("connection_failed", why, retryable=False) from error
    except socket.gaierror as error:
        why = f"the host of {url} is not known: {error.strerror}"
        retryable = error.errno == socket.EAI_AGAIN
        raise ParlanceError("connection_failed", why, retryable=retryable) from error
    except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
        why = f"{url} cannot be reached: {error or type(error).__name__}; is the server running?"
        raise ParlanceError("connection_failed", why) from error
    except InvalidURI as error:
        raise ParlanceError("invalid_option", f"url: {error}") from error
    except InvalidHandshake as error:
        raise ParlanceError("connection_failed", f"{url} does not speak m2m.v1: {error}", retryable=True) from error
    except WebSocketException as error:
        raise ParlanceError("connection_failed", f"{url}: {error}") from error
    if connection.subprotocol != _SUBPROTOCOL:
        await connection.close(1002)
        raise ParlanceError("connection_failed", f"{url} does not speak m2m.v1", retryable=False)
    return cast(WebSocket, connection)
