"""The frames that an end writes (§4, §5): bodies in frames as credit allows, streams in turns, and the frames to repeat."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from .codecs import encode
from .context import Encoder
from .control import Fields, pack
from .credit import BODY_CHARGE, Credit
from .errors import ProtocolError
from .frames import MAX_PIECE, MAX_TENSOR_PIECE, SIZED, Codec, Flag, Kind, body_frame, signal, varint
from .rate import Rate

LEAST_CHARGE = 64
"""Bytes of a shorter message towards the rate (§13)."""


@dataclass
class Body:
    """Something to say on a stream: a body, or the end or error of a reply."""

    kind: Kind
    content: bytes = b""
    codec: Codec = Codec.NONE
    metadata: Fields | None = None
    coded: bytes | None = None
    """Set when the first frame is written."""
    offset: int = 0


@dataclass
class Outbox:
    credit: Credit
    transmit: Callable[[bytes], None]
    context: Encoder | None
    on_answered: Callable[[int], None]
    """The last frame of a reply is written."""
    messages_per_minute: Rate
    bytes_per_second: Rate
    written: int = 0
    """Counted frames, over all connections."""
    _unacknowledged: deque[bytes] = field(default_factory=deque)
    _queues: dict[int, deque[Body]] = field(default_factory=dict)
    _timer: asyncio.TimerHandle | None = None

    def add(self, stream: int, body: Body) -> None:
        self._queues.setdefault(stream, deque()).append(body)
        self.pump()

    def has_begun(self, stream: int) -> bool:
        """Whether a body of the stream is written in part."""
        queue = self._queues.get(stream)
        return queue is not None and queue[0].coded is not None

    def drop(self, stream: int) -> None:
        """Nothing more of a stream is written."""
        if self._queues.pop(stream, None) and self.context is not None:
            self.context.abandon(stream)
        self.credit.forget(stream)

    @property
    def is_empty(self) -> bool:
        return not self._queues

    @property
    def is_acknowledged(self) -> bool:
        return not self._unacknowledged

    def pump(self) -> None:
        """Writes what credit allows, one frame of each stream at a time."""
        progress = True
        while progress:
            progress = False
            for stream in list(self._queues):
                queue = self._queues.get(stream)
                if queue and self._step(stream, queue):
                    progress = True
                if stream in self._queues and not self._queues[stream]:
                    del self._queues[stream]

    def stop(self) -> None:
        """Nothing waits for its rate any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def count(self, frame: bytes) -> None:
        """Writes a counted frame. It is kept until it is acknowledged (ACK-5)."""
        self.written += 1
        self._unacknowledged.append(frame)
        self.transmit(frame)

    def acknowledge(self, received: int) -> None:
        """ACK-2, ACK-3."""
        if received > self.written:
            raise ProtocolError("bad_frame", f"{received} frames are acknowledged, {self.written} were written")
        while self._unacknowledged and self.written - len(self._unacknowledged) < received:
            self._unacknowledged.popleft()

    def resume(self, received: int) -> None:
        """RES-8: the peer has this many frames."""
        if received < self.written - len(self._unacknowledged):
            raise ProtocolError("bad_frame", "the peer has fewer frames than it has acknowledged")
        self.acknowledge(received)

    def repeat(self) -> None:
        """RES-9: the same bytes in the same order."""
        for frame in self._unacknowledged:
            self.transmit(frame)

    def _step(self, stream: int, queue: deque[Body]) -> bool:
        body = queue[0]
        if body.kind > Kind.CHUNK:
            queue.popleft()
            self._last(stream, body)
            return True
        if self._must_wait(body):
            return False
        if body.coded is None:
            # A body that has not begun needs room for its head and one byte; it is coded only then (CTX-8).
            if self.credit.available(stream) < min(self.credit.window(stream), _most_of_head(body)):
                return False
            self._encode(stream, body)
        return self._piece(stream, queue, self._head(body) if body.offset == 0 else b"")

    def _must_wait(self, body: Body) -> bool:
        """LIM-2. A frame has a cost when it is coded, and no body is coded before it is written: so this is the most."""
        most = min(len(body.content) + _most_of_head(body), MAX_TENSOR_PIECE if body.codec == Codec.AVP else MAX_PIECE)
        is_begun = body.kind in (Kind.MESSAGE, Kind.REQUEST) and body.coded is None
        seconds = max(self.messages_per_minute.wait(1) if is_begun else 0.0, self.bytes_per_second.wait(max(most, LEAST_CHARGE)))
        if seconds > 0 and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._go_on)
        return seconds > 0

    def _go_on(self) -> None:
        self._timer = None
        self.pump()

    def _encode(self, stream: int, body: Body) -> None:
        if body.codec == Codec.CONTEXT and self.context is not None:
            body.coded = self.context.begin(stream, body.content, body.kind == Kind.CHUNK)
            return
        coded = encode(body.content, body.codec) if body.codec != Codec.AVP else body.content
        body.codec = Codec.NONE if coded is None else body.codec
        body.coded = body.content if coded is None else coded

    @staticmethod
    def _head(body: Body) -> bytes:
        expanded = varint(len(body.content)) if body.codec in SIZED else b""
        if body.metadata is None:
            return expanded
        packed = pack(body.metadata)
        return expanded + varint(len(packed)) + packed

    def _piece(self, stream: int, queue: deque[Body], head: bytes) -> bool:
        """Writes one frame of a body, as much as its credit allows."""
        body = queue[0]
        coded = body.coded or b""
        is_first = body.offset == 0
        left = len(coded) - body.offset
        largest = MAX_TENSOR_PIECE if body.codec == Codec.AVP else MAX_PIECE
        room = self.credit.available(stream) - (BODY_CHARGE + len(head) if is_first else 0)
        has_more = left > min(room, largest)
        total = varint(len(coded)) if has_more and is_first else b""
        most = min(left, room - len(total), largest)
        if has_more and most <= 0:
            return False
        flags = Flag.MORE if has_more else 0
        if is_first and body.metadata is not None:
            flags |= Flag.META
        rest = total + head + coded[body.offset : body.offset + most]
        body.offset += most
        self.credit.spend(stream, len(rest) + (BODY_CHARGE if is_first else 0))
        frame = body_frame(body.kind, stream, body.codec, flags, rest)
        self.bytes_per_second.spend(max(len(frame), LEAST_CHARGE))
        if is_first and body.kind in (Kind.MESSAGE, Kind.REQUEST):
            self.messages_per_minute.spend(1)
        self.count(frame)
        if not has_more:
            queue.popleft()
            self._complete(stream, body)
        return True

    def _complete(self, stream: int, body: Body) -> None:
        if body.codec == Codec.CONTEXT and self.context is not None:
            self.context.complete(stream)
            self.credit.spend(stream, max(0, len(body.content) - len(body.coded or b"")))
        if body.kind == Kind.RESPONSE:
            self._answered(stream)

    def _answered(self, stream: int) -> None:
        if self.context is not None:
            self.context.end(stream)
        self.credit.forget(stream)
        self.on_answered(stream)

    def _last(self, stream: int, body: Body) -> None:
        """END with its CRC (CTX-7), or ERROR."""
        trailer = self.context.end(stream) if self.context is not None else b""
        self.count(signal(body.kind, stream, trailer if body.kind == Kind.END else body.content))
        self._answered(stream)


def _most_of_head(body: Body) -> int:
    """Credit that is enough for the first frame of a body with at least one byte of it, or all of a short one."""
    metadata = 0 if body.metadata is None else len(pack(body.metadata)) + 3
    return BODY_CHARGE + metadata + 24 + min(len(body.content), 32)
