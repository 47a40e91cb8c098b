"""Opens the connections of one client."""

from __future__ import annotations

from typing import Any, Final

from ..core.errors import ParlanceError
from ..core.limits import Limits, Timers
from .http_connection import AVAILABLE, HttpConnection, open_http
from .order import PATIENCE, Order
from .web_socket import WebSocket, open_web_socket

Connection = WebSocket | HttpConnection
#: The bytes that a frame may have beside the largest body, and the largest piece of a tensor.
_HEAD: Final = 65_536
_PIECE: Final = 262_144


def check_transports(given: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the names of the transports, in order.

    Raises
    ------
    ParlanceError
        `invalid_option`.
    """
    if given is None:
        return ("websocket", "http") if AVAILABLE else ("websocket",)
    names = tuple(given)
    if not names or len(set(names)) < len(names) or not {*names} <= {"websocket", "http"}:
        raise ParlanceError("invalid_option", "transports: expected 'websocket', 'http' or both")
    if "http" in names and not AVAILABLE:
        raise ParlanceError("invalid_option", "transports: 'http' needs pip install 'parlance-client[http]'")
    return names


def name_of(connection: Connection) -> str:
    """Return the name of its transport."""
    return "http" if isinstance(connection, HttpConnection) else "websocket"


class Dialer:
    """Opens connections, and keeps the order of the transports.

    Parameters
    ----------
    url : str
        That of the WebSocket.
    names : tuple of str
        The transports.
    options : dict
        Those of `websockets`, which hold for HTTP as well.
    """

    def __init__(
        self, url: str, names: tuple[str, ...], *, limits: Limits, timers: Timers, options: dict[str, Any]
    ) -> None:
        self.order = Order(names)
        self._url = url
        self._most = max(limits.max_message_size, _PIECE) + _HEAD
        self._within = timers.open
        self._options = options

    async def open(self, name: str, *, soon: bool = False) -> Connection:
        """Open a connection.

        Parameters
        ----------
        name : str
            The transport.
        soon : bool, default False
            Another transport is tried if this one has not opened within 4 s.

        Raises
        ------
        ParlanceError
            `connection_failed`; not retryable if another attempt cannot help.
        """
        within = min(self._within, PATIENCE) if soon else self._within
        opens = open_http if name == "http" else open_web_socket
        return await opens(self._url, self._most, within, self._options)
