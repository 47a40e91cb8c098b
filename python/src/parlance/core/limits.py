"""The limits of this end (part 13)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of what a client receives.

    Parameters
    ----------
    max_message_size : int, default 16 MiB
        Bytes of the largest body, coded and decoded.
    max_tensor_size : int, default 1 GiB
        Bytes of the payload of the largest tensor.
    max_metadata_size : int, default 8 KiB
    max_streams : int, default 128
        Requests of the server and of other agents that may be open at once.
    message_window : int, default 1 MiB
        Bytes of one-way messages that may wait for the application.
    stream_window : int, default 256 KiB
        Bytes of one reply, or of one request, that may wait for the application.
    context_bytes, context_messages : int, default 4 MiB and 8
        The bytes and messages that each direction keeps to code others against.
    """

    max_message_size: int = 16 * 1024 * 1024
    max_tensor_size: int = 1024 * 1024 * 1024
    max_metadata_size: int = 8_192
    max_streams: int = 128
    message_window: int = 1024 * 1024
    stream_window: int = 256 * 1024
    context_bytes: int = 4 * 1024 * 1024
    context_messages: int = 8

    def __post_init__(self) -> None:
        least = max(16_384, self.max_metadata_size + 64)
        if min(self.message_window, self.stream_window) < least:
            raise ValueError(f"a window has to have at least {least} bytes")
        if self.max_streams < 1 or self.max_message_size < 1:
            raise ValueError("max_streams and max_message_size have to be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timers:
    """Times in seconds.

    Parameters
    ----------
    open : float, default 10
        Until a WebSocket is open.
    accept : float, default 30
        Until the server has answered HELLO.
    ping_interval : float, default 25
        Silence after which the connection is asked for a sign of life.
    ping_waiting : float, default 5
        The same while frames wait to be acknowledged.
    pong : float, default 10
        Until a PING has to be answered; the third one that is not ends the connection.
    closing : float, default 5
        Until `close` gives up.
    """

    open: float = 10.0
    accept: float = 30.0
    ping_interval: float = 25.0
    ping_waiting: float = 5.0
    pong: float = 10.0
    closing: float = 5.0
