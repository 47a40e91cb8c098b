"""Options of `connect` that belong together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

#: Credentials, or a function that returns them, which is called for each connection and before they end.
TokenSource = str | Callable[[], str | Awaitable[str | None] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconnect:
    """How a client connects again, in seconds.

    Parameters
    ----------
    min_delay, max_delay : float, default 0.1 and 10
        Bounds of the delay between attempts, which doubles and is then taken at random below that. It begins again
        after a connection that has lasted 5 s, and is 2 s at most after one that has not.
    connect_within : float, default 10
        For how long the first session is tried again; the delay or the attempt that has begun then is finished.
    """

    min_delay: float = 0.1
    max_delay: float = 10.0
    connect_within: float = 10.0
