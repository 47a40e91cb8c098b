"""Opening a WebSocket, and saying why one could not be opened."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any, Final, cast
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI, WebSocketException
from websockets.typing import Subprotocol

from ..core.errors import ParlanceError

_SUBPROTOCOL: Final = Subprotocol("m2m.v1")
_SCHEMES: Final = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_CLOSE_TIMEOUT: Final = 2.0


def check_url(url: str) -> str:
    """Return the URL of the WebSocket.

    Raises
    ------
    ParlanceError
        `invalid_option`.
    """
    parts = urlsplit(url)
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None or not parts.hostname:
        raise ParlanceError("invalid_option", f"url: expected ws://HOST/PATH or wss://HOST/PATH, not {url!r}")
    if parts.username or parts.password:
        raise ParlanceError("invalid_option", "url: credentials belong into the option token")
    return urlunsplit((scheme, parts.netloc, parts.path or "/", parts.query, ""))


class WebSocket(ClientConnection):
    """A WebSocket that writes frames together: a system call for each costs more than everything else about it."""

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
