"""One end of the link of a session (§4), over all of its connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from . import avp
from .agreement import Agreement
from .context import Decoder, Encoder
from .control import Fields, pack, unpack_map
from .credit import BODY_CHARGE, Credit
from .errors import ProtocolError, RequestError
from .frames import Codec, Flag, Frame, Head, Kind, Reader, parse, parse_head, signal, varint
from .incoming import METADATA_ENTRIES, Incoming, Message
from .outbox import Body, Outbox
from .rate import Rate

ACK_FRAMES, ACK_BYTES, ACK_SECONDS = 32, 65_536, 0.1
MAX_ERROR = 16_384


class Application(Protocol):
    """The layer above the link."""

    def on_message(self, message: Message) -> None: ...

    def on_request(self, stream: int, message: Message) -> asyncio.Task[None]: ...


class Call:
    """A request of this end."""

    def __init__(self, stream: int) -> None:
        self.stream = stream
        self.parts: list[Message] = []
        self.is_cancelled = False
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.on_part: Callable[[], None] | None = None

    def finish(self, error: Exception | None = None) -> None:
        if self.over.done():
            return
        if error is None:
            self.over.set_result(None)
        else:
            self.over.set_exception(error)
            self.over.exception()


class Link:
    def __init__(self, agreement: Agreement, is_client: bool, transmit: Callable[[bytes], None], application: Application) -> None:
        own, peer = agreement.own, agreement.peer
        if own is None or peer is None:
            raise ValueError("a link that was not agreed on")
        self._agreement = agreement
        self._own, self._peer = own, peer
        self._limits = limits = agreement.limits
        self._application = application
        self._transmit = transmit
        self.received = 0
        self._incoming_credit = Credit(own.message_window, own.stream_window)
        context = agreement.context
        self._context = None if context is None else Decoder(*context)
        self.outbox = Outbox(
            Credit(peer.message_window, peer.stream_window),
            transmit,
            None if context is None else Encoder(*context),
            self._written,
            Rate(limits.messages_per_minute / 60, limits.messages_per_minute),
            Rate(limits.bytes_per_second, limits.bytes_per_second),
        )
        self._parity = 1 if is_client else 0
        self._next_stream = 1 if is_client else 2
        self._last_of_peer = 0
        self._bodies: dict[int, Incoming] = {}
        self._calls: dict[int, Call] = {}
        self._requests: dict[int, asyncio.Task[None] | None] = {}
        """Streams of the peer that are open; a task once their request is complete."""
        self._answered: set[int] = set()
        self._acknowledged = 0
        self._unacknowledged_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self.peer_has_closed = False

    # Writing

    def choose(self, wished: str | None = None) -> Codec:
        """A codec that was agreed on; in context if that was agreed on and nothing else is wished."""
        if self._context is not None and wished in ("CONTEXT", None):
            return Codec.CONTEXT
        algorithms = self._agreement.algorithms
        plain = Codec.NONE if "NONE" in algorithms else Codec[algorithms[0]]
        return Codec[wished] if wished in algorithms else plain

    def send_message(self, content: bytes, codec: Codec) -> None:
        if not self._peer.messages:
            raise RequestError("unsupported", "the peer reads no one-way messages")
        body = Body(Kind.MESSAGE, content, codec)
        self._assert_taken(body)
        self.outbox.add(0, body)

    def open(self, content: bytes, codec: Codec, metadata: Fields | None = None) -> Call:
        """STR-1, STR-3."""
        body = Body(Kind.REQUEST, content, codec, metadata)
        self._assert_taken(body)
        if len(self._calls) >= min(self._peer.max_streams, self._limits.max_streams):
            raise RequestError("too_many_streams", "the peer allows no more streams")
        call = Call(self._next_stream)
        self._next_stream += 2
        self._calls[call.stream] = call
        self.outbox.add(call.stream, body)
        return call

    def _assert_taken(self, body: Body) -> None:
        """ACC-6, LINK-2, TEN-5: nothing begins that the peer does not take."""
        if body.codec == Codec.AVP:
            if not self._peer.messages:
                raise RequestError("unsupported", "the peer reads no tensors")
            if avp.payload_size(body.content) > min(self._peer.max_transfer, self._limits.max_transfer):
                raise RequestError("transfer_too_large", "a tensor above what the peer accepts")
        elif len(body.content) > self._limits.max_message:
            raise RequestError("message_too_large", "a body above the message limit of the peer")
        if body.metadata is not None and len(pack(body.metadata)) > self._limits.max_metadata:
            raise RequestError("metadata_too_large", "metadata above the limit of the peer")

    def cancel(self, call: Call) -> None:
        """STR-9: nothing of the request follows the CANCEL."""
        call.is_cancelled = True
        self.outbox.drop(call.stream)
        self.outbox.count(signal(Kind.CANCEL, call.stream))

    def reply(self, stream: int, body: Body) -> None:
        """Says something on a stream of the peer, unless it is over."""
        if stream not in self._requests or stream in self._answered:
            return
        try:
            if body.kind <= Kind.CHUNK:
                self._assert_taken(body)
        except RequestError as error:
            body = error_body(error)
        if body.kind != Kind.CHUNK:
            self._answered.add(stream)
        self.outbox.add(stream, body)

    def _written(self, stream: int) -> None:
        """STR-10: a stream keeps its slot until its answer is written; TEN-8: and one that was refused until its body has ended."""
        if stream not in self._bodies:
            self._free(stream)

    def _free(self, stream: int) -> None:
        self._requests.pop(stream, None)
        self._answered.discard(stream)
        self._incoming_credit.forget(stream)

    def acknowledge(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._acknowledged = self.received
        self._unacknowledged_bytes = 0
        self._transmit(signal(Kind.ACK, self.received))

    def resume(self, received: int) -> None:
        """§6: forgets what the peer has, states credit again, and repeats the rest."""
        self.outbox.resume(received)
        self._restate(lambda stream: stream == 0)
        self.outbox.repeat()
        # RES-7: only behind the requests that open the streams.
        self._restate(lambda stream: stream != 0 and (stream in self._calls or stream in self._requests))
        self.acknowledge()
        self.outbox.pump()

    def _restate(self, is_meant: Callable[[int], bool]) -> None:
        """CRED-7: also limits that were never raised."""
        for stream, limit in self._incoming_credit.used:
            if is_meant(stream):
                self._transmit(signal(Kind.CREDIT, stream, varint(limit)))

    def end(self) -> None:
        """The session is over: handlers stop, calls fail."""
        if self._timer is not None:
            self._timer.cancel()
        self.outbox.stop()
        for task in self._requests.values():
            if task is not None:
                task.cancel()
        for call in self._calls.values():
            call.finish(RequestError("session_lost", "the session is over"))

    # Reading

    def handle(self, data: bytes) -> None:
        frame = parse(data)
        if frame.kind == Kind.ACK:
            _assert_empty(frame.rest)
            self.outbox.acknowledge(frame.stream)
        elif frame.kind == Kind.CREDIT:
            self._credit(frame)
        else:
            if self.peer_has_closed:
                raise ProtocolError("protocol_violation", "a counted frame after CLOSE")
            self._counted(frame)
            self._count(len(data))

    def _count(self, size: int) -> None:
        """ACK-1."""
        self.received += 1
        self._unacknowledged_bytes += size
        if self.received - self._acknowledged >= ACK_FRAMES or self._unacknowledged_bytes >= ACK_BYTES:
            self.acknowledge()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ACK_SECONDS, self.acknowledge)

    def _credit(self, frame: Frame) -> None:
        """CRED-3, CRED-4."""
        reader = Reader(frame.rest)
        limit = reader.varint()
        _assert_empty(reader.rest())
        if not self._was_opened(frame.stream):
            raise ProtocolError("bad_frame", f"credit for stream {frame.stream}, which was never opened")
        is_open = frame.stream == 0 or frame.stream in self._calls or frame.stream in self._requests
        if is_open or not self.outbox.is_empty:
            self.outbox.credit.raise_to(frame.stream, limit)
            self.outbox.pump()

    def _was_opened(self, stream: int) -> bool:
        if stream == 0:
            return True
        return stream < self._next_stream if self._is_own(stream) else stream <= self._last_of_peer

    def _is_own(self, stream: int) -> bool:
        return stream % 2 == self._parity

    def _counted(self, frame: Frame) -> None:
        kind, stream = frame.kind, frame.stream
        if kind == Kind.ALIAS or Flag.ADDRESSED in frame.flags:
            raise ProtocolError("bad_frame", "agents were not agreed on")
        if kind == Kind.MESSAGE:
            if stream != 0:
                raise ProtocolError("bad_frame", "one-way messages travel on stream 0")
            self._body(frame)
        elif kind in (Kind.REQUEST, Kind.CANCEL):
            if stream == 0 or self._is_own(stream):
                raise ProtocolError("bad_frame", "a stream that is not its sender's to open")
            if kind == Kind.REQUEST:
                self._request(frame)
            else:
                self._cancelled(frame)
        else:
            self._reply(frame)

    def _request(self, frame: Frame) -> None:
        """STR-1, STR-3."""
        stream = frame.stream
        if stream > self._last_of_peer:
            self._last_of_peer = stream
            self._requests[stream] = None
            if len(self._requests) > self._own.max_streams:
                raise ProtocolError("too_many_streams", f"more than {self._own.max_streams} streams")
        elif stream not in self._bodies:
            raise ProtocolError("bad_frame", f"stream {stream} is opened after {self._last_of_peer}")
        self._body(frame)

    def _cancelled(self, frame: Frame) -> None:
        _assert_empty(frame.rest)
        if frame.stream > self._last_of_peer:
            raise ProtocolError("bad_frame", "a cancel of a stream that was never opened")
        if frame.stream not in self._requests:
            return
        if self._context is not None:
            self._context.state.abandon(frame.stream)
        is_arriving = self._bodies.pop(frame.stream, None) is not None
        if is_arriving and frame.stream in self._answered:
            # TEN-7: it was refused, and that was the answer.
            self._free(frame.stream)
            return
        task = self._requests[frame.stream]
        self.outbox.drop(frame.stream)
        if task is None or is_arriving or frame.stream in self._answered:
            self._answered.discard(frame.stream)
            self.reply(frame.stream, Body(Kind.END))
        else:
            task.cancel()
            task.add_done_callback(lambda _: self.reply(frame.stream, Body(Kind.END)))

    def _reply(self, frame: Frame) -> None:
        stream = frame.stream
        if not self._is_own(stream) or stream >= self._next_stream:
            raise ProtocolError("bad_frame", f"a reply on stream {stream}, which was never opened")
        call = self._calls.get(stream)
        if call is None:
            return
        if frame.kind <= Kind.CHUNK:
            self._body(frame)
            return
        is_cut = self._bodies.pop(stream, None) is not None
        if frame.kind == Kind.ERROR:
            if self._context is not None:
                self._context.state.end(stream)
            self._finish(call, _failure(frame.rest))
            return
        if is_cut and not call.is_cancelled:
            raise ProtocolError("bad_frame", "END inside a body")
        if self._context is not None:
            self._context.end(stream, frame.rest)
        else:
            _assert_empty(frame.rest)
        self._finish(call)

    def _finish(self, call: Call, error: Exception | None = None) -> None:
        """The reply is over. A request that is still being sent is cut short."""
        del self._calls[call.stream]
        if self.outbox.has_begun(call.stream) and not call.is_cancelled:
            self.cancel(call)
        self.outbox.drop(call.stream)
        self._incoming_credit.forget(call.stream)
        call.finish(error)

    def _body(self, frame: Frame) -> None:
        stream = frame.stream
        incoming = self._bodies.get(stream)
        charge = len(frame.rest) + (BODY_CHARGE if incoming is None else 0)
        if charge > self._incoming_credit.available(stream):
            raise ProtocolError("window_exceeded", f"{charge} bytes beyond the credit of stream {stream}")
        self._incoming_credit.spend(stream, charge)
        if incoming is None:
            incoming = self._begin(frame)
        else:
            incoming.add(frame)
        if frame.kind == Kind.REQUEST and frame.codec == Codec.AVP:
            self._check_tensor(stream, incoming)
        if Flag.MORE not in frame.flags:
            self._complete(incoming)
        self._grant(stream)

    def _check_tensor(self, stream: int, incoming: Incoming) -> None:
        """TEN-2: a tensor is refused as soon as its header shows that it is wrong. The rest of it is dropped as it arrives."""
        size = avp.HEADER.size
        total = incoming.length if incoming.head.total is None else incoming.head.total
        if stream not in self._answered and not incoming.is_checked and incoming.length >= size:
            incoming.is_checked = True
            try:
                avp.check_header(b"".join(incoming.pieces)[:size], total)
            except ProtocolError as error:
                self.reply(stream, error_body(RequestError(error.code, str(error))))
        if stream in self._answered:
            incoming.pieces.clear()

    def _begin(self, frame: Frame) -> Incoming:
        head = parse_head(frame)
        self._assert_agreed(frame, head)
        incoming = Incoming(frame, head, [head.content], len(head.content))
        if frame.codec == Codec.CONTEXT and self._context is not None:
            self._context.begin(frame.stream, head.content)
        self._bodies[frame.stream] = incoming
        return incoming

    def _assert_agreed(self, frame: Frame, head: Head) -> None:
        """LINK-4, STR-11, CTX-5."""
        codec = frame.codec
        if codec == Codec.CONTEXT:
            if self._context is None or Flag.SECRET in frame.flags:
                raise ProtocolError("bad_frame", "a body in context that must not be there")
        elif codec == Codec.AVP:
            if frame.kind != Kind.REQUEST:
                raise ProtocolError("bad_frame", "tensors are requests")
        elif codec.name not in self._agreement.algorithms and (head.content or head.total or codec != Codec.NONE):
            raise ProtocolError("bad_frame", f"{codec.name} was not agreed on")

    def _complete(self, incoming: Incoming) -> None:
        frame, head = incoming.frame, incoming.head
        del self._bodies[frame.stream]
        if head.total is not None and incoming.length != head.total:
            raise ProtocolError("bad_frame", f"a body states {head.total} bytes and has {incoming.length}")
        if frame.kind == Kind.REQUEST and frame.stream in self._answered:
            self._free(frame.stream)
            return
        message = Message(frame.codec, b"".join(incoming.pieces), head.expanded, head.metadata)
        if frame.codec == Codec.CONTEXT and self._context is not None:
            message.decoded = self._context.complete(frame.stream, message.coded, frame.kind == Kind.CHUNK)
            self._incoming_credit.spend(frame.stream, max(0, len(message.decoded) - len(message.coded)))
        self._deliver(frame, message)

    def _deliver(self, frame: Frame, message: Message) -> None:
        if frame.kind == Kind.MESSAGE:
            self._application.on_message(message)
        elif frame.kind == Kind.REQUEST:
            self._requests[frame.stream] = self._application.on_request(frame.stream, message)
        else:
            self._part(self._calls[frame.stream], frame, message)

    def _part(self, call: Call, frame: Frame, message: Message) -> None:
        is_response = frame.kind == Kind.RESPONSE
        # STR-7: a response after parts fails the request and nothing else.
        failure = RequestError("bad_frame", "a response after parts") if is_response and call.parts else None
        if failure is None and not call.is_cancelled and (is_response or message.coded or message.packed_metadata is None):
            call.parts.append(message)
            if call.on_part is not None:
                call.on_part()
        if is_response:
            self._finish(call, failure)

    def _grant(self, stream: int) -> None:
        """CRED-5, CRED-6: this peer reads at once."""
        is_open = stream == 0 or stream in self._calls or stream in self._requests
        credit = self._incoming_credit
        if is_open and credit.available(stream) < credit.window(stream) // 2:
            limit = credit.spent(stream) + credit.window(stream)
            credit.raise_to(stream, limit)
            self._transmit(signal(Kind.CREDIT, stream, varint(limit)))


def _assert_empty(rest: bytes) -> None:
    if rest:
        raise ProtocolError("trailing_bytes", "bytes after the end of a frame")


def _failure(data: bytes) -> RequestError:
    """The body of an error frame (§4)."""
    if len(data) > MAX_ERROR:
        raise ProtocolError("message_too_large", "an error frame above 16 KiB")
    fields: dict[str, Any] = unpack_map(data, "an error", METADATA_ENTRIES)
    code = fields.get("code")
    if not isinstance(code, str) or not 1 <= len(code) <= 64:
        raise ProtocolError("bad_message", "an error without a code")
    return RequestError(code, str(fields.get("message", code)), fields.get("retryable"))


def error_body(error: RequestError) -> Body:
    return Body(Kind.ERROR, pack(error.fields))
