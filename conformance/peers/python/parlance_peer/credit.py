"""Credit of one direction (§5): absolute limits by stream."""

from __future__ import annotations

BODY_CHARGE = 16


class Credit:
    def __init__(self, message_window: int, stream_window: int) -> None:
        self._windows = message_window, stream_window
        self._spent: dict[int, int] = {}
        self._limits: dict[int, int] = {}

    def window(self, stream: int) -> int:
        return self._windows[0 if stream == 0 else 1]

    def limit(self, stream: int) -> int:
        return self._limits.get(stream, self.window(stream))

    def spent(self, stream: int) -> int:
        return self._spent.get(stream, 0)

    def available(self, stream: int) -> int:
        return self.limit(stream) - self.spent(stream)

    def spend(self, stream: int, charge: int) -> None:
        self._spent[stream] = self.spent(stream) + charge

    def raise_to(self, stream: int, limit: int) -> None:
        """CRED-3: a limit that is not above the present one changes nothing."""
        if limit > self.limit(stream):
            self._limits[stream] = limit

    def forget(self, stream: int) -> None:
        self._spent.pop(stream, None)
        self._limits.pop(stream, None)

    @property
    def used(self) -> list[tuple[int, int]]:
        """The limits of the streams on which something was charged."""
        return [(stream, self.limit(stream)) for stream in sorted(self._spent)]
