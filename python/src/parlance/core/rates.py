"""Keeping to the rates that the server has announced, by waiting (LIM-2)."""

from __future__ import annotations

import math
from typing import Final

#: A frame counts as at least so many bytes.
MIN_BYTES: Final = 64


class Bucket:
    """May give `rate` at once, and then as much in each `per` seconds. It may go below zero once."""

    def __init__(self, rate: float, per: float) -> None:
        self._rate = rate
        self._speed = rate / per
        self._level = rate
        self._at = -math.inf

    def wait(self, now: float, amount: float = 1.0) -> float:
        """Return the seconds until `amount` may be taken; 0 if it may be now. More than all is given at full level."""
        if self._rate == math.inf:
            return 0.0
        if now > self._at:
            self._level = min(self._rate, self._level + (now - self._at) * self._speed)
            self._at = now
        return max(0.0, (min(amount, self._rate) - self._level) / self._speed)

    def take(self, now: float, amount: float = 1.0) -> None:
        """Take `amount`, allowed or not."""
        if self._rate != math.inf:
            self.wait(now)
            self._level -= amount


class Pace:
    """When a message may begin, and when bytes may be written."""

    def __init__(self, messages_per_minute: float, bytes_per_second: float) -> None:
        self._messages = Bucket(messages_per_minute, 60.0)
        self._bytes = Bucket(bytes_per_second, 1.0)
        self.is_limited = min(messages_per_minute, bytes_per_second) < math.inf
        #: When to ask again; infinity if nothing waits.
        self.due = math.inf

    def may_begin(self, now: float) -> bool:
        """Whether a message or a request may begin."""
        return self._allows(self._messages.wait(now), now)

    def may_write(self, now: float, size: int = MIN_BYTES) -> bool:
        """Whether so many bytes may be written."""
        return self._allows(self._bytes.wait(now, max(size, MIN_BYTES)), now)

    def _allows(self, wait: float, now: float) -> bool:
        if wait > 0:
            self.due = min(self.due, now + wait)
        return wait <= 0

    def begin(self, now: float) -> None:
        """Count a message."""
        self._messages.take(now)

    def write(self, now: float, size: int) -> None:
        """Count a frame."""
        self._bytes.take(now, max(size, MIN_BYTES))
