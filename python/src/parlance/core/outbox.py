"""The queue of frames to be written, in order: control, frames that are written again, then streams in turn."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Final, Protocol

from . import frames
from .agreement import Agreement
from .context import CodedBody, ContextEncoder
from .frames import (
    ADDRESSED,
    AVP,
    BODY_CHARGE,
    CHUNK,
    CONTEXT,
    END,
    EXPANDING,
    MAX_PIECE,
    MAX_TENSOR_PIECE,
    MESSAGE,
    META,
    MORE,
    REQUEST,
    SECRET,
)
from .rates import Pace
from .streams import Stream, StreamTable
from .wire import BYTES, Buffer, varint

#: Numbers of names in alias frames.
_ALIASES: Final = 256
#: A first frame has at least this much room for a body in context.
_CONTEXT_ROOM: Final = 64
#: No more counted frames are written while so many bytes wait to be acknowledged.
MAX_UNACKNOWLEDGED: Final = 8 * 1024 * 1024
_MIN_CONTEXT: Final = 32


@dataclass(slots=True, eq=False)
class Body:
    """A body to send, or an END or ERROR in its place behind bodies."""

    kind: int
    data: Buffer = b""
    codec: int = frames.PLAIN
    expanded: int | None = None
    #: The decoded `data`, if the body may be coded against earlier ones when its turn comes.
    content: bytes | None = None
    metadata: bytes | None = None
    secret: bool = False
    to: str | None = None
    #: Bytes of a tensor behind `data`.
    payload: memoryview | None = None
    #: Whether it moves to the next session if nothing of it was written.
    retry: bool = False
    at: int = -1
    context: CodedBody | None = None
    #: `data`, `codec` and `expanded` before the body was coded in context.
    original: tuple[Buffer, int, int | None] | None = None

    def renew(self) -> Body:
        """Return the body as it was before anything of it was written."""
        if self.original is not None:
            self.data, self.codec, self.expanded = self.original
        self.at, self.context = -1, None
        return self

    @property
    def length(self) -> int:
        """Coded bytes."""
        return len(self.data) + (len(self.payload) if self.payload is not None else 0)

    def take(self, room: int) -> bytes:
        """Return the next bytes, at most `room`."""
        start, self.at = self.at, min(self.length, self.at + room)
        if self.payload is None:
            return bytes(self.data[start : self.at])
        split = len(self.data)
        return bytes(self.data[start : self.at]) + bytes(self.payload[max(0, start - split) : max(0, self.at - split)])


class Listener(Protocol):
    """The calls of an outbox to its link."""

    def handle_written(self, stream: Stream, body: Body) -> None:
        """The last frame of a body is written, or END or ERROR is."""


class Outbox:
    """Everything that one link writes, one frame at a time, no earlier than the socket takes it."""

    def __init__(
        self, streams: StreamTable, agreement: Agreement, context: ContextEncoder | None, listener: Listener
    ) -> None:
        self._streams = streams
        self._context = context
        self._listener = listener
        self._control: deque[bytes] = deque()
        self._replay: deque[bytes] = deque()
        #: CANCEL frames, which overtake bodies, and their streams.
        self._signals: deque[tuple[bytes, int]] = deque()
        self._ready: deque[Stream] = deque()
        self._paced: deque[Stream] = deque()
        self._openings: deque[Stream] = deque()
        self._aliases: dict[str, int] = {}
        self._next_alias = 0
        self.pace = Pace(agreement.messages_per_minute, agreement.bytes_per_second)
        self.unacknowledged: deque[bytes] = deque()
        self.unacknowledged_bytes = 0
        self.acknowledged = 0
        self.queued_bytes = 0
        #: CLOSE was written: no counted frame may follow it (SES-6).
        self.is_stopped = False
        #: The server drains: no request begins (AWAY-1).
        self.holds_openings = False

    @property
    def written(self) -> int:
        """Counted frames that were written."""
        return self.acknowledged + len(self.unacknowledged)

    @property
    def is_empty(self) -> bool:
        """Whether nothing counted waits to be written; requests that have not begun do not count."""
        return not (self._replay or self._signals or self._ready or self._paced) and all(
            not stream.queue for stream in self._streams
        )

    @property
    def stalled(self) -> list[Stream]:
        """The streams for which the peer grants no credit, if nothing else waits."""
        if self._replay or self._signals or self._ready or self._paced or self.unacknowledged:
            return []
        waiting = [stream for stream in self._streams if stream.queue]
        return waiting if all(stream.is_blocked and stream.id > 0 for stream in waiting) else []

    @property
    def openings(self) -> deque[Stream]:
        """Requests that have not begun."""
        return self._openings

    # --- what is put in

    def push_control(self, frame: bytes) -> None:
        """Queue a frame that is not counted."""
        self._control.append(frame)

    def push_signal(self, frame: bytes, stream: int) -> None:
        """Queue a CANCEL."""
        self._signals.append((frame, stream))

    def push_opening(self, stream: Stream, body: Body) -> None:
        """Queue a request; its stream opens when its first frame is written."""
        stream.queue.append(body)
        self.queued_bytes += body.length
        self._openings.append(stream)

    def push(self, stream: Stream, body: Body) -> None:
        """Queue a body, END or ERROR behind what waits on its stream."""
        stream.queue.append(body)
        self.queued_bytes += body.length
        self.wake(stream)

    def wake(self, stream: Stream) -> None:
        """Give a stream its turn, if it has something to write."""
        if stream.queue and not stream.is_ready:
            stream.is_ready, stream.is_blocked = True, False
            self._ready.append(stream)

    def clear(self, stream: Stream) -> None:
        """Drop what waits on a stream."""
        for body in stream.queue:
            self.queued_bytes -= body.length - max(0, body.at)
        stream.queue.clear()
        if stream.id == 0 and stream in self._openings:
            self._openings.remove(stream)
        if stream in self._paced:
            self._paced.remove(stream)

    def confirm(self, count: int) -> None:
        """Forget the frames that the peer has."""
        while self.acknowledged < count:
            self.unacknowledged_bytes -= len(self.unacknowledged.popleft())
            self.acknowledged += 1

    def begin_connection(self, *, replays: bool) -> None:
        """Forget what the former connection has not written of uncounted frames, and write counted ones again."""
        self._control.clear()
        self._replay = deque(self.unacknowledged) if replays else deque()

    # --- what is taken out

    def next_frame(self, now: float, *, only_control: bool = False) -> bytes | None:
        """Return the next frame to write, or `None` if nothing can be written now."""
        if self._control:
            return self._control.popleft()
        if only_control:
            return None
        if self._replay:
            return self._again(now)
        if self.is_stopped:
            return None
        if self._signals:
            frame, number = self._signals.popleft()
            if self._context is not None:
                self._context.state.abandon(number)
            return self._count(frame)
        if self.unacknowledged_bytes > MAX_UNACKNOWLEDGED:
            return None
        pace = self.pace
        if pace.is_limited:
            pace.due = math.inf
            while self._paced and pace.may_begin(now):
                self.wake(self._paced.popleft())
            if (self._ready or self._openings) and not pace.may_write(now):
                return None
        if self._openings and self._streams.has_free and not self.holds_openings:
            frame_or_none = self._open(now)
            if frame_or_none is not None:
                return frame_or_none
        while self._ready:
            stream = self._ready.popleft()
            stream.is_ready = False
            frame_or_none = self._write(stream, now)
            if frame_or_none is not None:
                if stream.queue and not stream.is_blocked:
                    self.wake(stream)
                return frame_or_none
        return None

    def _again(self, now: float) -> bytes:
        """Write a frame again: it does not wait for the rate, and new ones then do (RES-10)."""
        frame = self._replay.popleft()
        if self.pace.is_limited:
            self.pace.write(now, len(frame))
            if frame[0] <= REQUEST:
                self.pace.begin(now)
        return frame

    def _count(self, frame: bytes) -> bytes:
        """Keep a counted frame until it is acknowledged (ACK-5); it has its number from here on."""
        self.unacknowledged.append(frame)
        self.unacknowledged_bytes += len(frame)
        return frame

    def _open(self, now: float) -> bytes | None:
        if self.pace.is_limited and not self.pace.may_begin(now):
            return None
        stream = self._openings[0]
        body = stream.queue[0]
        alias = self._alias(body)
        if alias is not None:
            return self._count(alias)
        self._openings.popleft()
        self._streams.open_own(stream)
        frame = self._begin(stream, body, now)
        if frame is None:  # the head does not fit into the window, which LINK-1 excludes
            stream.is_blocked = True
        elif stream.queue:
            self.wake(stream)
        return frame

    def _write(self, stream: Stream, now: float) -> bytes | None:
        if not stream.queue:
            return None
        body = stream.queue[0]
        if body.kind >= END:
            return self._signal(stream, body)
        if body.at >= 0:
            return self._rest(stream, body, now)
        if body.kind == MESSAGE and self.pace.is_limited and not self.pace.may_begin(now):
            self._paced.append(stream)
            return None
        alias = self._alias(body)
        if alias is not None:
            self.wake(stream)
            return self._count(alias)
        return self._begin(stream, body, now)

    def _signal(self, stream: Stream, body: Body) -> bytes:
        rest = bytes(body.data)
        if self._context is not None:
            crc = self._context.state.end(stream.id)
            if body.kind == END and crc is not None:
                rest = crc.to_bytes(4, "little")
        stream.queue.popleft()
        frame = self._count(frames.signal_frame(body.kind, stream.id, rest))
        self._listener.handle_written(stream, body)
        return frame

    def _alias(self, body: Body) -> bytes | None:
        """Return the frame that announces the name of the receiver, if that is not known yet (AGT-5)."""
        if body.to is None or body.to in self._aliases:
            return None
        number = self._next_alias
        self._next_alias = (number + 1) % _ALIASES
        self._aliases = {name: other for name, other in self._aliases.items() if other != number}
        self._aliases[body.to] = number
        return frames.alias_frame(number, body.to)

    def _begin(self, stream: Stream, body: Body, now: float) -> bytes | None:
        """Write the first frame of a body, perhaps its only one."""
        agent = b"" if body.to is None else varint(self._aliases[body.to])
        meta = b"" if body.metadata is None else varint(len(body.metadata)) + body.metadata
        self._code_in_context(stream, body, len(agent) + len(meta))
        if body.codec in EXPANDING:
            meta = varint(body.expanded or 0) + meta
        flags = body.codec | (SECRET if body.secret else 0) | (ADDRESSED if agent else 0)
        flags |= META if body.metadata is not None else 0
        length = body.length
        most = MAX_TENSOR_PIECE if body.codec == AVP else MAX_PIECE
        overhead = BODY_CHARGE + len(agent) + len(meta)
        total = b""
        if overhead + length > stream.available or length > most:
            total = varint(length)
            flags |= MORE
            room = min(most, stream.available - overhead - len(total))
            if room < 1:
                stream.is_blocked = True
                return None
        else:
            room = length
        body.at = 0
        piece = body.take(room)
        if body.context is not None and self._context is not None:
            self._context.state.begin(stream.id, body.context.base)
        stream.sent += overhead + len(total) + len(piece)
        if body.kind <= REQUEST:
            self.pace.begin(now)
        frame = b"".join((BYTES[body.kind], varint(stream.id), BYTES[flags], agent, total, meta, piece))
        return self._written(stream, body, frame, len(piece), now)

    def _rest(self, stream: Stream, body: Body, now: float) -> bytes | None:
        most = MAX_TENSOR_PIECE if body.codec == AVP else MAX_PIECE
        left = body.length - body.at
        room = min(most, left, stream.available)
        if room < 1:
            stream.is_blocked = True
            return None
        flags = body.codec | (SECRET if body.secret else 0) | (MORE if room < left else 0)
        piece = body.take(room)
        stream.sent += len(piece)
        frame = b"".join((BYTES[body.kind], varint(stream.id), BYTES[flags], piece))
        return self._written(stream, body, frame, len(piece), now)

    def _written(self, stream: Stream, body: Body, frame: bytes, size: int, now: float) -> bytes:
        self.queued_bytes -= size
        if self.pace.is_limited:
            self.pace.write(now, len(frame))
        self._count(frame)
        if body.at == body.length:
            stream.queue.popleft()
            self._complete_context(stream, body)
            self._listener.handle_written(stream, body)
        return frame

    def _code_in_context(self, stream: Stream, body: Body, head: int) -> None:
        context = self._context
        if context is None or body.content is None or len(body.content) < _MIN_CONTEXT:
            return
        if stream.available < BODY_CHARGE + _CONTEXT_ROOM + head:
            return
        is_part = body.kind == CHUNK
        coded = context.encode(stream.id, body.content, is_part=is_part)
        extra = 0 if body.expanded is None else 2
        if len(coded.data) > len(body.data) + extra and (is_part or context.state.messages):
            return
        self.queued_bytes += len(coded.data) - len(body.data)
        body.original = (body.data, body.codec, body.expanded)
        body.data, body.codec, body.expanded, body.context = coded.data, CONTEXT, None, coded

    def _complete_context(self, stream: Stream, body: Body) -> None:
        coded = body.context
        if coded is None or self._context is None or body.content is None:
            return
        stream.sent += max(0, len(body.content) - len(coded.data))
        is_part = body.kind == CHUNK
        self._context.state.complete(stream.id, body.content, is_part=is_part, replaces=coded.replaces)


def is_last_of(frame: bytes, kind: int) -> bool:
    """Whether a frame on stream 0 is the last one of a body of this kind."""
    return frame[0] == kind and not frame[2] & MORE
