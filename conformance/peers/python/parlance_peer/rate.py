"""Rates that a sender keeps to by waiting (§13, rates)."""

from __future__ import annotations

import time


class Rate:
    """LIM-2: `burst` at once, then as much as `per_second` allows."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._left = burst
        self._at = time.monotonic()

    def wait(self, amount: float) -> float:
        """Seconds until so much may be spent. More than a burst waits for a whole one."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
        self._at = now
        return max(0.0, (min(amount, self._burst) - self._left) / self._per_second)

    def spend(self, amount: float) -> None:
        self._left -= amount
