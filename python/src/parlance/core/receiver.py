"""Receives bodies, ends, cancels and tensors on the streams of a link (part 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import frames
from .context import ContextDecoder
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
from .frames import AVP, BODY_CHARGE, CANCEL, CHUNK, CONTEXT, END, ERROR, MESSAGE, MORE, REQUEST, RESPONSE, Head
from .limits import Limits
from .reassembly import Assembly, TensorAssembly
from .rules import AliasReader, BodyRules
from .streams import Stream
from .wire import read_varint

if TYPE_CHECKING:
    from .link import Link


class Receiver:
    """Takes the counted frames of one link."""

    def __init__(self, link: Link, limits: Limits) -> None:
        agreement = link.agreement
        self._link = link
        self._limits = limits
        self._max_received = agreement.max_received_size
        self._streams = link.streams
        self._credit = link.credit
        self._outbox = link.outbox
        self._decoder = ContextDecoder(*agreement.context) if agreement.context is not None else None
        self._rules = BodyRules(agreement, limits)
        self._aliases = AliasReader(agreement)
        self._bare = self._rules.bare
        #: One-way messages that were received whole.
        self.messages = 0

    def receive(self, kind: int, data: bytes) -> Event | None:
        """Take a counted frame.

        Raises
        ------
        ParlanceError
            Anything that ends the session.
        """
        if kind == frames.ALIAS:
            self._aliases.announce(data)
            return None
        number, at = read_varint(data, 1, frames.MAX_STREAM)
        stream = self._streams.get(number)
        if kind <= CHUNK:
            return self._receive_body(kind, number, stream, data, at)
        if kind == CANCEL:
            return self._receive_cancel(number, stream, data, at)
        return self._receive_end(kind, number, stream, data, at)

    def _receive_body(self, kind: int, number: int, stream: Stream | None, data: bytes, at: int) -> Event | None:
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
        if kind >= RESPONSE and stream is not None and at < len(data) and data[at] in self._bare:
            return self._receive_bare(kind, stream, data, at)
        head = self._rules.read(kind, data, at)
        if stream is None or kind == REQUEST:
            stream = self._open_peer(number)
        return self._begin_body(kind, stream, head, self._aliases.name_of(head.agent), data, at)

    def _receive_bare(self, kind: int, stream: Stream, data: bytes, at: int) -> Event | None:
        """Take a reply or a part in one frame whose head is its codec: most frames are such."""
        charge = len(data) - at - 1 + BODY_CHARGE
        if charge - BODY_CHARGE > self._max_received:
            raise ParlanceError("message_too_large", f"a body above {self._max_received} bytes")
        stream.body_start = stream.received
        self._credit.receive(stream, charge)
        if self._credit.has_waiting:
            self._credit.arrived(stream, 0)
        body = ReceivedBody(data[at], data[at + 1 :], None, None, None, False, None, charge)
        return self._deliver(kind, stream, body)

    def _open_peer(self, number: int) -> Stream:
        limits, peer = self._limits, self._link.agreement.link
        stream = Stream(number, peer.stream_window, limits.stream_window, limits.stream_window, is_own=False)
        self._streams.open_peer(stream)
        return stream

    def _check_late(self, number: int, *, is_own: bool) -> None:
        """Refuse a frame for a stream that was never opened by the end that has to have opened it (STR-4)."""
        if bool(number & 1) != is_own or not self._streams.was_opened(number):
            raise ParlanceError("bad_frame", f"a frame for stream {number}, which was never opened")

    def _begin_body(
        self, kind: int, stream: Stream, head: Head, sender: str | None, data: bytes, at: int
    ) -> Event | None:
        body = data[head.at :]
        charge = len(data) - at - 1 + BODY_CHARGE
        stream.body_start = stream.received
        self._credit.receive(stream, charge)
        missing = 0 if head.total is None else head.total - len(body)
        if head.codec == CONTEXT and self._decoder is not None:
            self._decoder.begin(stream.id, body)
        assembly = Assembly(kind, head, sender, missing, charge)
        if head.codec == AVP:
            return self._begin_tensor(stream, assembly, body)
        assembly.parts.append(body)
        return self._take(stream, assembly, body)

    def _continue_body(self, kind: int, stream: Stream, assembly: Assembly, data: bytes, at: int) -> Event | None:
        if at >= len(data):
            raise ParlanceError("truncated", "a frame without a codec")
        flags, head = data[at], assembly.head
        if kind != assembly.kind or flags & 0x0F != head.codec or flags & (frames.ADDRESSED | frames.META):
            raise ParlanceError("bad_frame", "the frames of a body differ")
        body = data[at + 1 :]
        assembly.missing -= len(body)
        if not body or assembly.missing < 0 or (assembly.missing > 0) != bool(flags & MORE):
            raise ParlanceError("bad_frame", "the frames of a body are not as long as its first one says")
        self._credit.receive(stream, len(body))
        if assembly.tensor is not None or assembly.refused:
            return self._add_to_tensor(stream, assembly, body)
        assembly.charge += len(body)
        assembly.parts.append(body)
        return self._take(stream, assembly, body)

    def _take(self, stream: Stream, assembly: Assembly, body: bytes) -> Event | None:
        """Complete a body if its last frame has arrived."""
        stream.assembly = assembly if assembly.missing else None
        if assembly.missing or self._credit.has_waiting:
            self._credit.arrived(stream, assembly.missing)
        if assembly.missing:
            if stream.is_cancelled and stream.is_own:
                self._credit.consume(stream, len(body))
                assembly.charge -= len(body)
            return None
        kind, head = assembly.kind, assembly.head
        data, content = assembly.data, None
        charge = assembly.charge
        if head.codec == CONTEXT and self._decoder is not None:
            most = self._max_received
            content = self._decoder.complete(stream.id, data, is_part=kind == CHUNK, most=most)
            extra = max(0, len(content) - len(data))
            stream.received += extra
            charge += extra
        received = ReceivedBody(
            head.codec,
            data,
            content,
            head.expanded,
            head.metadata,
            bool(head.flags & frames.SECRET),
            assembly.sender,
            charge,
        )
        return self._deliver(kind, stream, received)

    def _deliver(self, kind: int, stream: Stream, body: ReceivedBody) -> Event | None:
        if kind == MESSAGE:
            self.messages += 1
            return MessageReceived(body)
        if kind == REQUEST:
            stream.is_request_complete = True
            return RequestReceived(stream, body)
        if stream.is_cancelled:
            self._credit.consume(stream, body.charge)
            if kind == RESPONSE:
                self._link.forget(stream)
            return None
        if kind == CHUNK:
            stream.chunks += 1
            if body.data or body.metadata is None:
                stream.has_parts = True
            return PartReceived(stream, body)
        self._over(stream)
        if stream.has_parts:
            return StreamOver(stream, ParlanceError("bad_frame", "a RESPONSE after parts of the same reply"))
        return ResponseReceived(stream, body)

    def _receive_end(self, kind: int, number: int, stream: Stream | None, data: bytes, at: int) -> Event | None:
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
            self._outbox.clear(stream)
            self._outbox.push_signal(frames.signal_frame(CANCEL, stream.id), stream.id)
        self._link.forget(stream)

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
        self._credit.forget(stream)
        if is_running:
            return RequestCancelled(stream)
        if is_refused:
            if not stream.queue:
                self._link.forget(stream)  # TEN-7: the cancel of a refused tensor gets no further answer
            return None
        stream.is_answered = False
        self._link.end(stream)
        return None

    # --- tensors

    def _begin_tensor(self, stream: Stream, assembly: Assembly, body: bytes) -> Event | None:
        stream.is_tensor = True
        most = self._limits.max_tensor_size
        if not body and assembly.missing:
            raise ParlanceError("bad_frame", "the first frame of a tensor without a byte of it")
        length = len(body) if assembly.head.total is None else assembly.head.total
        assembly.tensor = TensorAssembly(length, most)
        self._credit.consume(stream, assembly.charge - len(body))
        return self._add_to_tensor(stream, assembly, body)

    def _add_to_tensor(self, stream: Stream, assembly: Assembly, body: bytes) -> Event | None:
        """Put a piece in its place, which reads it; what was refused is dropped."""
        stream.assembly = assembly if assembly.missing else None
        stream.is_request_complete = not assembly.missing
        tensor = assembly.tensor
        self._credit.arrived(stream, assembly.missing)
        self._credit.consume(stream, len(body))
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
            self._link.fail(stream, error)
            return None
        if not stream.queue:
            self._link.forget(stream)
        return None
