"""The link: messages, requests and replies of one session in frames that both ends count (part 4)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from . import frames
from .agreement import UNLIMITED, Agreement
from .context import ContextDecoder, ContextEncoder
from .errors import ParlanceError
from .events import (
    Event,
    MessageReceived,
    PartReceived,
    ReceivedBody,
    RequestCancelled,
    RequestReceived,
    ResponseReceived,
    StreamOver,
    TensorReceived,
)
from .frames import (
    ACK,
    ALIAS,
    AVP,
    BODY_CHARGE,
    CANCEL,
    CHUNK,
    CONTEXT,
    CREDIT,
    END,
    ERROR,
    MESSAGE,
    MORE,
    REQUEST,
    RESPONSE,
    Head,
)
from .limits import Limits
from .outbox import Body, Outbox, is_last_of
from .reassembly import Assembly, TensorAssembly
from .receiving import AliasReader, BodyRules
from .streams import ReceiveCredit, Stream, StreamTable
from .wire import read_varint

#: A receiver acknowledges after so many frames, bytes or seconds, whichever is first (ACK-1).
_ACK_FRAMES: Final = 32
_ACK_BYTES: Final = 65_536
_ACK_DELAY: Final = 0.2


class Link:
    """One link. A rebuilt one takes its place with new counts and the same stream IDs (REB-2, REB-3).

    Parameters
    ----------
    before_ack : callable, optional
        Called with the count before it is acknowledged: what a later process needs to know has to be stored then.
    last : tuple of int
        The last stream IDs of both ends.
    """

    __slots__ = (
        "_ack_due",
        "_aliases",
        "_before_ack",
        "_decoder",
        "_limits",
        "_rules",
        "_unacked_bytes",
        "_unacked_frames",
        "agreement",
        "credit",
        "messages",
        "messages_received",
        "messages_written",
        "on_written",
        "outbox",
        "received",
        "streams",
    )

    def __init__(
        self,
        agreement: Agreement,
        limits: Limits,
        *,
        before_ack: Callable[[int], None] | None = None,
        last: tuple[int, int] = (-1, 0),
    ) -> None:
        self.agreement = agreement
        self._limits = limits
        self._before_ack = before_ack
        peer = agreement.link
        self.messages = Stream(0, peer.message_window, limits.message_window, limits.message_window, is_own=True)
        self.streams = StreamTable(
            self.messages, max_own=agreement.max_streams, max_peer=limits.max_streams, last=last
        )
        context = agreement.context
        self._decoder = ContextDecoder(*context) if context is not None else None
        encoder = ContextEncoder(*context) if context is not None else None
        self.outbox = Outbox(self.streams, agreement, encoder, self)
        self.credit = ReceiveCredit(self._grant)
        self._rules = BodyRules(agreement, limits)
        self._aliases = AliasReader(agreement)
        self.received = 0
        self._unacked_frames = self._unacked_bytes = 0
        self._ack_due = math.inf
        #: One-way messages that were received whole, and own ones that were written to their end.
        self.messages_received = self.messages_written = 0
        #: Called when the last frame of an own message or request is written.
        self.on_written: Callable[[Stream, Body], None] | None = None

    # --- input

    def receive(self, data: bytes, now: float) -> Event | None:
        """Take a link frame.

        Raises
        ------
        ParlanceError
            Anything that ends the session.
        """
        kind = data[0]
        if kind >= ACK:
            self._receive_uncounted(kind, data)
            return None
        if kind == ALIAS:
            self._aliases.announce(data)
            self._note(len(data), now)
            return None
        number, at = read_varint(data, 1, frames.MAX_STREAM)
        stream = self.streams.get(number)
        if kind <= CHUNK:
            event = self._receive_body(kind, number, stream, data, at)
        elif kind == CANCEL:
            event = self._receive_cancel(number, stream, data, at)
        else:
            event = self._receive_end(kind, number, stream, data, at)
        self._note(len(data), now)
        return event

    def _note(self, size: int, now: float) -> None:
        self.received += 1
        self._unacked_frames += 1
        self._unacked_bytes += size
        if self._unacked_frames >= _ACK_FRAMES or self._unacked_bytes >= _ACK_BYTES:
            self.acknowledge()
        elif self._ack_due == math.inf:
            self._ack_due = now + _ACK_DELAY

    def _receive_uncounted(self, kind: int, data: bytes) -> None:
        number, at = read_varint(data, 1)
        if kind == ACK:
            if at != len(data):
                raise ParlanceError("trailing_bytes", "bytes after a count")
            self.confirm(number)
            return
        if kind != CREDIT:
            raise ParlanceError("bad_frame", f"unknown kind {kind:#x}")
        limit, at = read_varint(data, at)
        if at != len(data):
            raise ParlanceError("trailing_bytes", "bytes after a limit of credit")
        stream = self.streams.get(number)
        if stream is None:
            if not self.streams.was_opened(number):
                raise ParlanceError("bad_frame", f"credit for stream {number}, which was never opened")
        elif limit > stream.send_limit:
            stream.send_limit = limit
            self.outbox.wake(stream)

    def _receive_body(
        self, kind: int, number: int, stream: Stream | None, data: bytes, at: int
    ) -> Event | None:
        if (number == 0) != (kind == MESSAGE):
            raise ParlanceError("bad_frame", "a message on another stream than 0, or something else on it")
        if kind == REQUEST:
            if number & 1:
                raise ParlanceError("bad_frame", f"a request on stream {number}")
        elif stream is None or (number and not stream.is_own):
            self._check_late(number, is_own=True)
            return None
        if stream is not None and stream.assembly is not None:
            return self._continue_body(kind, stream, stream.assembly, data, at)
        head = self._rules.read(kind, data, at)
        if stream is None or kind == REQUEST:
            stream = self._open_peer(number)
        return self._begin_body(kind, stream, head, self._aliases.name_of(head.agent), data, at)

    def _open_peer(self, number: int) -> Stream:
        limits, peer = self._limits, self.agreement.link
        stream = Stream(number, peer.stream_window, limits.stream_window, limits.stream_window, is_own=False)
        self.streams.open_peer(stream)
        return stream

    def _check_late(self, number: int, *, is_own: bool) -> None:
        """Refuse a frame for a stream that was never opened by the end that has to have opened it (STR-4)."""
        if bool(number & 1) != is_own or not self.streams.was_opened(number):
            raise ParlanceError("bad_frame", f"a frame for stream {number}, which was never opened")

    def _begin_body(
        self, kind: int, stream: Stream, head: Head, sender: str | None, data: bytes, at: int
    ) -> Event | None:
        body = data[head.at :]
        charge = len(data) - at - 1 + BODY_CHARGE
        stream.body_start = stream.received
        self.credit.receive(stream, charge)
        missing = 0 if head.total is None else head.total - len(body)
        if head.codec == CONTEXT and self._decoder is not None:
            self._decoder.begin(stream.id, body)
        assembly = Assembly(kind, head, sender, missing, charge)
        if head.codec == AVP:
            return self._begin_tensor(stream, assembly, body)
        assembly.parts.append(body)
        return self._take(stream, assembly, body)

    def _continue_body(
        self, kind: int, stream: Stream, assembly: Assembly, data: bytes, at: int
    ) -> Event | None:
        if at >= len(data):
            raise ParlanceError("truncated", "a frame without a codec")
        flags, head = data[at], assembly.head
        if kind != assembly.kind or flags & 0x0F != head.codec or flags & (frames.ADDRESSED | frames.META):
            raise ParlanceError("bad_frame", "the frames of a body differ")
        body = data[at + 1 :]
        assembly.missing -= len(body)
        if not body or assembly.missing < 0 or (assembly.missing > 0) != bool(flags & MORE):
            raise ParlanceError("bad_frame", "the frames of a body are not as long as its first one says")
        self.credit.receive(stream, len(body))
        if assembly.tensor is not None or assembly.refused:
            return self._add_to_tensor(stream, assembly, body)
        assembly.charge += len(body)
        assembly.parts.append(body)
        return self._take(stream, assembly, body)

    def _take(self, stream: Stream, assembly: Assembly, body: bytes) -> Event | None:
        """Complete a body if its last frame has arrived."""
        stream.assembly = assembly if assembly.missing else None
        if assembly.missing or self.credit.has_waiting:
            self.credit.arrived(stream, assembly.missing)
        if assembly.missing:
            if stream.is_cancelled and stream.is_own:
                self.credit.consume(stream, len(body))
                assembly.charge -= len(body)
            return None
        kind, head = assembly.kind, assembly.head
        data, content = assembly.data, None
        charge = assembly.charge
        if head.codec == CONTEXT and self._decoder is not None:
            most = self.agreement.max_received_size
            content = self._decoder.complete(stream.id, data, is_part=kind == CHUNK, most=most)
            extra = max(0, len(content) - len(data))
            stream.received += extra
            charge += extra
        received = ReceivedBody(
            head.codec, data, content, head.expanded, head.metadata, bool(head.flags & frames.SECRET), assembly.sender, charge
        )
        return self._deliver(kind, stream, received)

    def _deliver(self, kind: int, stream: Stream, body: ReceivedBody) -> Event | None:
        if kind == MESSAGE:
            self.messages_received += 1
            return MessageReceived(body)
        if kind == REQUEST:
            stream.is_request_complete = True
            return RequestReceived(stream, body)
        if stream.is_cancelled:
            self.credit.consume(stream, body.charge)
            if kind == RESPONSE:
                self._close(stream)
            return None
        if kind == CHUNK:
            if body.data or body.metadata is None:
                stream.has_parts = True
                stream.parts += 1
            return PartReceived(stream, body)
        self._over(stream)
        if stream.has_parts:
            return StreamOver(stream, ParlanceError("bad_frame", "a RESPONSE after parts of the same reply"))
        return ResponseReceived(stream, body)

    def _receive_end(
        self, kind: int, number: int, stream: Stream | None, data: bytes, at: int
    ) -> Event | None:
        if number == 0:
            raise ParlanceError("bad_frame", "an END or ERROR on stream 0")
        if stream is None or not stream.is_own:
            self._check_late(number, is_own=True)
            return None
        rest = data[at:]
        error = frames.error_of(rest) if kind == ERROR else None
        if kind == END and stream.assembly is not None and not stream.is_cancelled:
            raise ParlanceError("bad_frame", "an END inside a body")
        if self._decoder is not None:
            if kind == END:
                self._decoder.end(number, rest)
            else:
                self._decoder.state.end(number)
        elif kind == END and rest:
            raise ParlanceError("trailing_bytes", "bytes after an END")
        was_cancelled = stream.is_cancelled
        self._over(stream)
        return None if was_cancelled else StreamOver(stream, error)

    def _over(self, stream: Stream) -> None:
        """A reply is over; the rest of a request that was not written to its end is dropped (part 4)."""
        if not stream.is_request_complete and not stream.is_cancelled:
            self.outbox.clear(stream)
            self.outbox.push_signal(frames.signal_frame(CANCEL, stream.id), stream.id)
        self._close(stream)

    def _close(self, stream: Stream) -> None:
        self.streams.close(stream)
        self.credit.forget(stream)

    def _receive_cancel(self, number: int, stream: Stream | None, data: bytes, at: int) -> Event | None:
        if at != len(data):
            raise ParlanceError("trailing_bytes", "bytes after the stream of a cancel")
        if stream is None or stream.is_own:
            self._check_late(number, is_own=False)
            return None
        if self._decoder is not None:
            self._decoder.state.abandon(number)
        is_running = stream.is_request_complete and not stream.is_tensor and not stream.is_answered
        is_refused = stream.is_answered and stream.assembly is not None
        stream.is_cancelled = stream.is_request_complete = True
        stream.assembly = None
        self.credit.forget(stream)
        if is_running:
            return RequestCancelled(stream)
        if is_refused:
            if not stream.queue:
                self._close(stream)  # TEN-7: the cancel of a refused tensor gets no further answer
            return None
        stream.is_answered = False
        self.end(stream)
        return None

    # --- tensors

    def _begin_tensor(self, stream: Stream, assembly: Assembly, body: bytes) -> Event | None:
        stream.is_tensor = True
        most = min(self._limits.max_tensor_size, UNLIMITED)
        if not body and assembly.missing:
            raise ParlanceError("bad_frame", "the first frame of a tensor without a byte of it")
        length = len(body) if assembly.head.total is None else assembly.head.total
        assembly.tensor = TensorAssembly(length, most)
        self.credit.consume(stream, assembly.charge - len(body))
        return self._add_to_tensor(stream, assembly, body)

    def _add_to_tensor(self, stream: Stream, assembly: Assembly, body: bytes) -> Event | None:
        """Put a piece in its place, which reads it; what was refused is dropped."""
        stream.assembly = assembly if assembly.missing else None
        stream.is_request_complete = not assembly.missing
        tensor = assembly.tensor
        self.credit.arrived(stream, assembly.missing)
        self.credit.consume(stream, len(body))
        try:
            if tensor is not None:
                tensor.add(body)
            if assembly.missing:
                return None
            if tensor is not None:
                crc = tensor.finish()
                return TensorReceived(stream, bytes(tensor.head), tensor.payload, crc, assembly.sender)
        except ParlanceError as error:
            assembly.tensor, assembly.refused = None, True
            self.fail(stream, error)
            return None
        if not stream.queue:
            self._close(stream)
        return None

    # --- commands

    def send(self, body: Body) -> None:
        """Send a one-way message."""
        self.outbox.push(self.messages, body)

    def open(self, body: Body, tag: Any) -> Stream:
        """Send a request; it begins when a stream is free and the rate allows it."""
        limits, peer = self._limits, self.agreement.link
        stream = Stream(0, peer.stream_window, limits.stream_window, limits.stream_window, is_own=True, tag=tag)
        self.outbox.push_opening(stream, body)
        return stream

    def part(self, stream: Stream, body: Body) -> None:
        """Send a part of a reply, or metadata of it."""
        if not stream.is_answered and not stream.is_over:
            self.outbox.push(stream, body)

    def respond(self, stream: Stream, body: Body) -> None:
        """Answer a request by one body; by END if it was cancelled."""
        if stream.is_cancelled:
            self.end(stream)
        elif not stream.is_answered and not stream.is_over:
            stream.is_answered = True
            self.outbox.push(stream, body)

    def end(self, stream: Stream) -> None:
        """Answer a request by the end of its parts."""
        self._finish(stream, Body(END))

    def fail(self, stream: Stream, error: BaseException) -> None:
        """Answer a request by an error; by END if it was cancelled."""
        self._finish(stream, Body(END) if stream.is_cancelled else Body(ERROR, frames.error_map(error)))

    def _finish(self, stream: Stream, body: Body) -> None:
        if stream.is_answered or stream.is_over:
            return
        stream.is_answered = True
        if stream.is_cancelled:
            self.outbox.clear(stream)
        self.outbox.push(stream, body)

    def cancel(self, stream: Stream) -> None:
        """Give a request of this end up."""
        if stream.is_over or stream.is_cancelled:
            return
        stream.is_cancelled = True
        self.outbox.clear(stream)
        if stream.id == 0:
            stream.is_over = True
            return
        self.outbox.push_signal(frames.signal_frame(CANCEL, stream.id), stream.id)

    def consume(self, stream: Stream, charge: int) -> None:
        """Note that the application has read a body."""
        self.credit.consume(stream, charge)

    def handle_written(self, stream: Stream, body: Body) -> None:
        """Note that the last frame of a body, END or ERROR is written."""
        kind = body.kind
        if kind <= REQUEST:
            if kind == MESSAGE:
                self.messages_written += 1
            else:
                stream.is_request_complete = True
            if self.on_written is not None:
                self.on_written(stream, body)
        elif kind != CHUNK and (stream.is_request_complete or stream.assembly is None):
            self._close(stream)

    # --- acknowledgement

    def _grant(self, stream: Stream) -> None:
        self.outbox.push_control(frames.credit_frame(stream.id, stream.receive_limit))

    def acknowledge(self) -> None:
        """Acknowledge what has arrived."""
        if self._before_ack is not None:
            self._before_ack(self.received)
        self.outbox.push_control(frames.count_frame(self.received))
        self._unacked_frames = self._unacked_bytes = 0
        self._ack_due = math.inf

    @property
    def owes_acknowledgement(self) -> bool:
        """Whether something has arrived that is not acknowledged."""
        return self._unacked_frames > 0

    def confirm(self, count: int) -> None:
        """The peer has received so many counted frames (ACK-2, ACK-3).

        Raises
        ------
        ParlanceError
            `bad_frame`.
        """
        if count > self.outbox.written:
            raise ParlanceError("bad_frame", f"{count} frames acknowledged, {self.outbox.written} were sent")
        self.outbox.confirm(count)

    def resume(self, received: int) -> None:
        """Continue on a new connection, whose peer has received so many counted frames.

        Raises
        ------
        ParlanceError
            `bad_frame` (RES-8).
        """
        if received < self.outbox.acknowledged:
            raise ParlanceError("bad_frame", f"{received} frames received, more were acknowledged before")
        self.confirm(received)
        self.outbox.begin_connection(replays=True)
        for stream in self.streams:
            if stream.received:
                self._grant(stream)
        self.acknowledge()

    # --- time and state

    @property
    def due(self) -> float:
        """When `handle_timeout` has something to do."""
        return min(self._ack_due, self.outbox.pace.due)

    def handle_timeout(self, now: float) -> None:
        """Acknowledge if that is due."""
        if now >= self._ack_due:
            self.acknowledge()

    @property
    def is_acknowledged(self) -> bool:
        """Whether the peer has everything that was sent."""
        return not self.outbox.unacknowledged and self.outbox.is_empty and not self.outbox.openings

    def undelivered_messages(self) -> tuple[int, int]:
        """Return the one-way messages of which nothing was written, and those that may have arrived."""
        waiting = sum(body.at < 0 for body in self.messages.queue)
        begun = len(self.messages.queue) - waiting
        unknown = sum(is_last_of(frame, MESSAGE) for frame in self.outbox.unacknowledged)
        return waiting, unknown + begun
