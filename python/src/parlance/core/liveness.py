"""Signs of life: PING in silence, and when a connection is given up (part 2)."""

from __future__ import annotations

import math
from typing import Final

from .limits import Timers

#: Unanswered PINGs after which a connection is given up.
MAX_PINGS: Final = 3


class Liveness:
    """The signs of life on the present connection."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self.hear(0.0)

    def hear(self, now: float) -> None:
        """Note a frame, which is a sign of life whatever it is (PING-2)."""
        self._heard_at = now
        self._pinged_at, self._pings = math.inf, 0

    def due(self, *, waits: bool) -> float:
        """Return when to ask, or to give up; sooner if frames wait to be acknowledged."""
        timers = self._timers
        if self._pinged_at != math.inf:
            return self._pinged_at + timers.pong
        return self._heard_at + (timers.ping_waiting if waits else timers.ping_interval)

    def ask(self, now: float) -> bool:
        """Note a PING, and return whether to send it: the connection is given up in place of a further one."""
        self._pings += 1
        self._pinged_at = now
        return self._pings <= MAX_PINGS
