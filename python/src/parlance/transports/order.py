"""With which of two transports a connection begins."""

from __future__ import annotations

import math
from typing import Final

#: How long a transport may say nothing before the other one is tried, in seconds.
PATIENCE: Final = 4.0
#: A connection that is lost sooner after it has opened is one that a network does not let live.
_SHORT_LIFE: Final = 5.0
_MAX_SHORT_LIVES: Final = 3
#: A server that is down is not asked twice each time.
_SECOND_GAP: Final = 10.0


class Order:
    """The transports of a client, of which the last one that was answered is first.

    Parameters
    ----------
    names : tuple of str
        One transport or two.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._short_lives = 0
        self._due = -math.inf

    def turns(self, now: float, *, ready: str | None = None) -> tuple[str, ...]:
        """Return the transports to try now, one after the other.

        Parameters
        ----------
        ready : str, optional
            The one that has opened a connection already.
        """
        first = ready or self.names[0]
        is_due = now >= self._due or first != self.names[0]
        return (first, *(name for name in self.names if is_due and name != first))

    def passed_over(self, now: float) -> None:
        """The second one is tried now."""
        self._due = now + _SECOND_GAP

    def answered(self, name: str) -> None:
        """The server has answered over this one."""
        self._due = -math.inf
        if name != self.names[0]:
            self._swap()

    def lost(self, name: str, lived: float) -> None:
        """A connection has ended without a close code, so many seconds after it had opened."""
        is_short = lived < _SHORT_LIFE and name == "websocket" == self.names[0]
        self._short_lives = self._short_lives + 1 if is_short else 0
        if self._short_lives >= _MAX_SHORT_LIVES:
            self._swap()

    def _swap(self) -> None:
        self.names = self.names[::-1]
        self._short_lives = 0
