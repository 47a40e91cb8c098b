"""The streams of a link, and the credit of both directions (parts 4 and 5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from .errors import ParlanceError

if TYPE_CHECKING:
    from .outbox import Body
    from .reassembly import Assembly

#: How much of a body that is larger than its window is let through at a time.
PERMIT_STEP: Final = 1024 * 1024


@dataclass(slots=True, eq=False)
class Stream:
    """One request with its reply, or, with the ID 0, all one-way messages.

    A request of this end has the ID 0 until its first frame is written: IDs only grow on the wire (STR-1).
    """

    id: int
    send_limit: int
    receive_limit: int
    window: int
    is_own: bool
    #: The object that belongs to the stream in the layer above.
    tag: Any = None
    sent: int = 0
    received: int = 0
    consumed: int = 0
    #: Where the body that is arriving began.
    body_start: int = 0
    #: The body that is arriving.
    assembly: Assembly | None = None
    #: The bodies that wait to be written.
    queue: deque[Body] = field(default_factory=deque)
    is_ready: bool = False
    is_blocked: bool = False
    is_cancelled: bool = False
    has_parts: bool = False
    #: The request was written, or has arrived, to its end.
    is_request_complete: bool = False
    #: The answer is queued to its end.
    is_answered: bool = False
    is_tensor: bool = False
    is_over: bool = False
    #: Chunks that were received whole, and whether the request was acknowledged (of a durable session).
    chunks: int = 0
    is_acknowledged: bool = False
    request: Body | None = None

    @property
    def available(self) -> int:
        """How much may still be written before the peer grants more."""
        return self.send_limit - self.sent


class StreamTable:
    """The open streams of both ends, and the last IDs."""

    def __init__(self, messages: Stream, *, max_own: int, max_peer: int, last: tuple[int, int] = (-1, 0)) -> None:
        self.messages = messages
        self._streams: dict[int, Stream] = {0: messages}
        self.max_own = max_own
        self.max_peer = max_peer
        self.last_own, self.last_peer = last
        self.own = self.peer = 0

    def get(self, number: int) -> Stream | None:
        """Return an open stream."""
        return self._streams.get(number)

    def __iter__(self) -> Iterator[Stream]:
        return iter(list(self._streams.values()))

    @property
    def has_free(self) -> bool:
        """Whether this end may open another stream."""
        return self.own < self.max_own

    def open_own(self, stream: Stream, number: int | None = None) -> None:
        """Give a stream of this end its number."""
        if number is None:
            number = self.last_own = self.last_own + 2
        stream.id = number
        self._streams[number] = stream
        self.own += 1

    def open_peer(self, stream: Stream) -> None:
        """Add a stream of the peer.

        Raises
        ------
        ParlanceError
            `bad_frame`, `too_many_streams`.
        """
        if stream.id & 1 or stream.id <= self.last_peer:
            raise ParlanceError("bad_frame", f"a request on stream {stream.id}")
        if self.peer >= self.max_peer:
            raise ParlanceError("too_many_streams", f"more than {self.max_peer} streams", close_code=4400)
        self.last_peer = stream.id
        self._streams[stream.id] = stream
        self.peer += 1

    def was_opened(self, number: int) -> bool:
        """Whether a stream other than 0 has had this number."""
        return 0 < number <= (self.last_own if number & 1 else self.last_peer)

    def close(self, stream: Stream) -> None:
        """Remove a stream that is over."""
        stream.is_over = True
        if self._streams.get(stream.id) is not stream or stream.id == 0:
            return
        del self._streams[stream.id]
        if stream.is_own:
            self.own -= 1
        else:
            self.peer -= 1


class ReceiveCredit:
    """Grants credit as the application reads, and lets through one body at a time that is larger than its window."""

    def __init__(self, grant: Any) -> None:
        #: Called with a stream whose limit has risen.
        self._grant = grant
        self._permitted: Stream | None = None
        self._waiting: dict[Stream, None] = {}

    @property
    def has_waiting(self) -> bool:
        """Whether a body is let through, or waits for that."""
        return self._permitted is not None or bool(self._waiting)

    def receive(self, stream: Stream, charge: int) -> None:
        """Charge a frame.

        Raises
        ------
        ParlanceError
            `window_exceeded`.
        """
        stream.received += charge
        if stream.received > stream.receive_limit:
            raise ParlanceError("window_exceeded", f"more than the credit of stream {stream.id}")

    def arrived(self, stream: Stream, missing: int) -> None:
        """Note that a frame of a body has arrived, of which so many bytes are missing."""
        if missing == 0:
            self._waiting.pop(stream, None)
            if self._permitted is stream:
                self._permitted = None
                self._permit()
        elif self._permitted is stream:
            if stream.receive_limit - stream.received < PERMIT_STEP // 2:
                self._extend(stream, missing)
        elif missing > stream.receive_limit - stream.received and stream.consumed >= stream.body_start:
            self._waiting[stream] = None
            self._permit()

    def consume(self, stream: Stream, charge: int) -> None:
        """Give back what the application has read."""
        stream.consumed += charge
        if stream.is_over:
            return
        if stream.receive_limit - stream.consumed <= stream.window // 2:
            self._raise(stream, stream.consumed + stream.window)
        if stream.assembly is not None:
            self.arrived(stream, stream.assembly.missing)

    def forget(self, stream: Stream) -> None:
        """Note that a stream is over, or that its body is."""
        self._waiting.pop(stream, None)
        if self._permitted is stream:
            self._permitted = None
            self._permit()

    def _permit(self) -> None:
        if self._permitted is None and self._waiting:
            stream = self._permitted = next(iter(self._waiting))
            del self._waiting[stream]
            if stream.assembly is not None:
                self._extend(stream, stream.assembly.missing)

    def _extend(self, stream: Stream, missing: int) -> None:
        self._raise(stream, stream.received + min(missing, PERMIT_STEP))

    def _raise(self, stream: Stream, limit: int) -> None:
        if limit > stream.receive_limit:
            stream.receive_limit = limit
            self._grant(stream)
