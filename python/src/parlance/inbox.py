"""Messages that wait for a reader."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """A queue with an end, read by one reader at a time."""

    __slots__ = ("_end", "_error", "_items", "_waiter")

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._end = False
        self._error: BaseException | None = None

    def put(self, item: Item) -> None:
        """Add an item, unless the end has come."""
        if not self._end:
            self._items.append(item)
            self._wake()

    def end(self, error: BaseException | None = None) -> None:
        """End behind what waits; with an error, the reader gets it there."""
        if not self._end:
            self._end, self._error = True, error
            self._wake()

    def clear(self) -> None:
        """Remove what waits."""
        self._items.clear()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def take(self) -> Item | None:
        """Return the next item, `None` at the end, or raise the error of the end."""
        while not self._items:
            if self._end:
                if self._error is not None:
                    raise self._error
                return None
            if self._waiter is not None:
                raise RuntimeError("another task reads this already: it has one reader at a time")
            waiter = self._waiter = asyncio.get_running_loop().create_future()
            try:
                await waiter
            finally:
                if self._waiter is waiter:
                    self._waiter = None
        return self._items.popleft()
