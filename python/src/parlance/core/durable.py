"""The record that a client keeps of a durable session, to write it again to another process of its server."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from .errors import ParlanceError
from .frames import MESSAGE
from .link import Link
from .maps import Fields, Map
from .outbox import Body
from .streams import Stream
from .ticket import Have

_ACKNOWLEDGED: Final = 1
_CANCELLED: Final = 2
MAX_REQUESTS: Final = 4_096


class Log:
    """Own one-way messages and requests of a durable session that may have to be written again (DUR-4)."""

    def __init__(self, sent: int = 0) -> None:
        #: The number of the last frame of each message, and the message.
        self._messages: deque[tuple[int, Body]] = deque()
        #: The number of the last frame of each request that is not acknowledged.
        self._requests: deque[tuple[int, Stream]] = deque()
        self.sent = sent

    def attach(self, link: Link, save: Callable[[], None] | None) -> None:
        """Note what a link writes; `save` is called before a message leaves, as its number must not be used again."""

        def note(stream: Stream, body: Body) -> None:
            number = link.outbox.written
            if body.kind == MESSAGE:
                self._messages.append((number, body))
                if save is not None:
                    save()
            else:
                stream.request = body
                self._requests.append((number, stream))

        link.on_written = note

    def confirm(self, count: int) -> None:
        """The server has so many frames of the present link."""
        while self._messages and self._messages[0][0] <= count:
            self._messages.popleft()
            self.sent += 1
        while self._requests and self._requests[0][0] <= count:
            self._requests.popleft()[1].is_acknowledged = True

    def have(self, link: Link) -> Have:
        """Return what HELLO states."""
        self.confirm(link.outbox.acknowledged)
        streams = [
            number
            for stream in link.streams
            if stream.id and stream.is_own and not stream.is_tensor
            for number in (
                stream.id,
                stream.chunks,
                stream.is_acknowledged * _ACKNOWLEDGED + stream.is_cancelled * _CANCELLED,
            )
        ]
        return Have(
            messages=link.receiver.messages,
            sent=self.sent,
            written=link.messages_written,
            opened=max(0, link.streams.last_own),
            heard=link.streams.last_peer,
            streams=tuple(streams[: 3 * MAX_REQUESTS]),
        )

    def again(self, handled: int, written: int) -> list[Body]:
        """Return the messages after number `handled`, of `written`.

        Raises
        ------
        ParlanceError
            `bad_acceptance` (DUR-7).
        """
        if not self.sent <= handled <= written:
            raise ParlanceError("bad_acceptance", f"{handled} messages handled of {self.sent} to {written}")
        bodies = [body for _, body in self._messages]
        self._messages.clear()
        self._requests.clear()
        self.sent = handled
        left = written - handled
        return [body.renew() for body in bodies[len(bodies) - left :]] if left else []


def read_kept(rebuilt: Map) -> tuple[int, list[int]] | None:
    """Read `kept` of `rebuilt`: how many messages are handled, and which requests have to come again."""
    kept = Fields(rebuilt, "rebuilt").map("kept")
    if kept is None:
        return None
    fields = Fields(kept, "kept")
    return fields.whole("handled"), fields.wholes("again", MAX_REQUESTS)
