"""The faults by name. Each replaces one function of the peer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from parlance_peer import agreement, avp, behaviours, client, codecs, context, control, credit
from parlance_peer import frames, incoming, link, outbox, server, session
from parlance_peer.errors import ProtocolError
from parlance_peer.frames import Codec, Kind


def accepts_any_version() -> None:
    """§2: a version that is not spoken is accepted."""
    server.VERSIONS = ("1", "2", "3")  # type: ignore[assignment]


def prefers_its_own_order() -> None:
    """§2: algorithms in the order of the server."""
    server.common_algorithms = lambda payload: agreement.ALGORITHMS  # type: ignore[assignment]
    agreement.common_algorithms = lambda payload: [  # type: ignore[assignment]
        name for name in agreement.ALGORITHMS if name in payload["algorithms"]
    ]


def accepts_anything() -> None:
    """§2: a client that takes an ACCEPT beyond its offer."""
    client.check_accept = lambda payload: None  # type: ignore[assignment]


def forgets_varint_form() -> None:
    """§4: varints that are not in their shortest form are read."""

    def varint(self: frames.Reader, most: int = 2**53 - 1) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    frames.Reader.varint = varint  # type: ignore[method-assign]


def ends_without_parts() -> None:
    """§4: the last part of a reply is lost."""
    add = outbox.Outbox.add
    held: dict[int, Any] = {}

    def dropping(self: outbox.Outbox, stream: int, body: outbox.Body) -> None:
        before = held.pop(stream, None)
        if body.kind == Kind.CHUNK:
            held[stream] = body
        if before is not None and body.kind == Kind.CHUNK:
            add(self, stream, before)
        if body.kind != Kind.CHUNK:
            add(self, stream, body)

    outbox.Outbox.add = dropping  # type: ignore[method-assign]


def ignores_cancel() -> None:
    """§4: a cancel stops nothing."""
    link.Link._cancelled = lambda self, frame: None  # type: ignore[method-assign]


def ignores_credit() -> None:
    """§5: a sender without limits."""
    credit.Credit.available = lambda self, stream: 2**50  # type: ignore[method-assign]


def forgets_body_charge() -> None:
    """§5: the 16 of each body are not charged."""
    outbox.BODY_CHARGE = 0


def grants_nothing() -> None:
    """§5: a receiver that reads and grants no credit."""
    link.Link._grant = lambda self, stream: None  # type: ignore[method-assign]


def states_wrong_total() -> None:
    """§4: the first frame of a body in pieces states one byte more."""
    original = outbox.varint

    def longer(value: int) -> bytes:
        return original(value + 1 if value > 50_000 else value)

    outbox.varint = longer


def takes_any_total() -> None:
    """§4: more or fewer bytes than stated are taken."""

    def add(self: incoming.Incoming, frame: frames.Frame) -> None:
        self.pieces.append(frame.rest)
        self.length = self.head.total or 0

    incoming.Incoming.add = add  # type: ignore[method-assign]


def never_acknowledges() -> None:
    """§4: frames are counted and not acknowledged."""
    link.Link._count = lambda self, size: setattr(self, "received", self.received + 1)  # type: ignore[method-assign]


def repeats_new_frames() -> None:
    """§6: frames that are not acknowledged are not written again."""
    outbox.Outbox.repeat = lambda self: None  # type: ignore[method-assign]


def repeats_backwards() -> None:
    """§6: frames are written again in another order."""

    def repeat(self: outbox.Outbox) -> None:
        for frame in reversed(self._unacknowledged):
            self.transmit(frame)

    outbox.Outbox.repeat = repeat  # type: ignore[method-assign]


def trusts_received() -> None:
    """§6: a count of the peer is never refused."""

    def resume(self: outbox.Outbox, received: int) -> None:
        self.acknowledge(min(received, self.written))

    outbox.Outbox.resume = resume  # type: ignore[method-assign]


def compares_spelling() -> None:
    """§6: offers are compared by their spelling."""

    def spelled(payload: dict[str, Any]) -> str:
        return json.dumps({name: value for name, value in payload.items() if name != "resume"})

    server.same_offer = lambda one, other: spelled(one) == spelled(other)  # type: ignore[assignment]


def keeps_no_messages() -> None:
    """§9: messages in context do not enter the list."""
    context.State._enter = lambda self, content, replaced: None  # type: ignore[method-assign]


def evicts_newest() -> None:
    """§9: a message for which no room can be made removes others."""
    enter = context.State._enter

    def clearing(self: context.State, content: bytes, replaced: context.Base | None) -> None:
        if len(content) > self.max_bytes:
            self.list = []
        else:
            enter(self, content, replaced)

    context.State._enter = clearing  # type: ignore[method-assign]


def ends_without_crc() -> None:
    """§9: END has no CRC."""
    context.Encoder.end = lambda self, stream: b""  # type: ignore[method-assign]


def believes_tensors() -> None:
    """§10: tensors are not verified."""
    avp.verify = lambda body: None  # type: ignore[assignment]
    behaviours.avp = avp


def answers_undecodable_with_internal() -> None:
    """§14: the code of an error of decoding is not told."""
    decode = codecs.decode

    def blaming(coded: bytes, codec: Codec, expanded: int | None) -> bytes:
        try:
            return decode(coded, codec, expanded)
        except ProtocolError as error:
            raise ProtocolError("internal", "the handler failed") from error

    codecs.decode = blaming


def closes_at_once() -> None:
    """§3: CLOSE is answered by the end of the connection."""

    def hurrying(self: session.Session) -> None:
        self._transport.finish(1000, "NORMAL")
        self.finish()

    session.Session._peer_has_closed = hurrying  # type: ignore[method-assign]


def takes_text_for_binary() -> None:
    """§1: a text frame is read as its bytes."""
    handle = session.Session.handle

    def handling(self: session.Session, message: bytes | str) -> None:
        handle(self, message.encode() if isinstance(message, str) and self.link is not None else message)

    session.Session.handle = handling  # type: ignore[method-assign]


def ends_inside_bodies() -> None:
    """§4: END cuts a body short."""
    reply = link.Link._reply

    def forgiving(self: link.Link, frame: frames.Frame) -> None:
        if frame.kind == Kind.END:
            self._bodies.pop(frame.stream, None)
        reply(self, frame)

    link.Link._reply = forgiving  # type: ignore[method-assign]


def opens_one_too_many() -> None:
    """§4: one more stream than the peer allows."""
    opening = link.Link.open

    def greedy(self: link.Link, *arguments: Any) -> link.Call:
        most = self._peer.max_streams
        object.__setattr__(self._peer, "max_streams", most + 1)
        try:
            return opening(self, *arguments)
        finally:
            object.__setattr__(self._peer, "max_streams", most)

    link.Link.open = greedy  # type: ignore[method-assign]


def acknowledges_one_too_many() -> None:
    """§4: a count above the frames that have arrived."""

    def acknowledge(self: link.Link) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._acknowledged = self.received
        self._unacknowledged_bytes = 0
        self._transmit(frames.signal(Kind.ACK, self.received + 1))

    link.Link.acknowledge = acknowledge  # type: ignore[method-assign]


def accepts_old_attempts() -> None:
    """§6: the attempt of a HELLO is not compared."""
    resumed = server.Server._resumed

    def accepting(self: server.Server, transport: Any, hello: dict[str, Any]) -> Any:
        resume = hello.get("resume")
        matching = self._matching(resume)
        if resume is not None and matching is not None:
            resume["attempt"] = max(resume.get("attempt") or 0, matching.attempt + 1)
        return resumed(self, transport, hello)

    server.Server._resumed = accepting  # type: ignore[method-assign]


def repeats_received_frames() -> None:
    """§6: what the peer has received is written again."""

    def resume(self: outbox.Outbox, received: int) -> None:
        if received < self.written - len(self._unacknowledged):
            raise ProtocolError("bad_frame", "the peer has fewer frames than it has acknowledged")

    outbox.Outbox.resume = resume  # type: ignore[method-assign]


def begins_bodies_again() -> None:
    """§6: a body that credit has cut begins again on the next connection."""
    resume = outbox.Outbox.resume

    def forgetting(self: outbox.Outbox, received: int) -> None:
        for queue in self._queues.values():
            queue[0].offset = 0
        resume(self, received)

    outbox.Outbox.resume = forgetting  # type: ignore[method-assign]


def wrong_token_raises_attempt() -> None:
    """§3: the attempt of a HELLO is kept before its token is compared."""
    resumed = server.Server._resumed

    def raising(self: server.Server, transport: Any, hello: dict[str, Any]) -> Any:
        resume = hello.get("resume") or {}
        named = self._sessions.get(resume.get("session_id", ""))
        if named is not None and self._matching(resume) is None:
            named.attempt = max(named.attempt, resume.get("attempt") or 0)
        return resumed(self, transport, hello)

    server.Server._resumed = raising  # type: ignore[method-assign]


def frees_cancelled_slots() -> None:
    """§4: a request that was cancelled does not count as open any more."""
    opening = link.Link.open

    def greedy(self: link.Link, *arguments: Any) -> link.Call:
        most = self._peer.max_streams
        cancelled = sum(call.is_cancelled for call in self._calls.values())
        object.__setattr__(self._peer, "max_streams", most + cancelled)
        try:
            return opening(self, *arguments)
        finally:
            object.__setattr__(self._peer, "max_streams", most)

    link.Link.open = greedy  # type: ignore[method-assign]


def frees_slots_at_cancel() -> None:
    """§4: a stream of the peer gives its slot back when it is cancelled, and not when it has ended."""
    cancelled = link.Link._cancelled

    def generous(self: link.Link, frame: frames.Frame) -> None:
        object.__setattr__(self._own, "max_streams", self._own.max_streams + (frame.stream in self._requests))
        cancelled(self, frame)

    link.Link._cancelled = generous  # type: ignore[method-assign]


def frees_refused_tensors() -> None:
    """§10: a tensor that was refused gives its slot back although its body has not ended."""
    link.Link._written = link.Link._free  # type: ignore[method-assign]


def keeps_refused_tensors() -> None:
    """§10: a tensor that was refused never gives its slot back."""
    free = link.Link._free

    def keeping(self: link.Link, stream: int) -> None:
        if stream not in self._tensors_refused:
            free(self, stream)

    link.Link._tensors_refused = set()  # type: ignore[attr-defined]
    check = link.Link._check_tensor

    def noting(self: link.Link, stream: int, body: incoming.Incoming) -> None:
        check(self, stream, body)
        if stream in self._answered:
            self._tensors_refused.add(stream)

    link.Link._check_tensor = noting  # type: ignore[method-assign]
    link.Link._free = keeping  # type: ignore[method-assign]


def takes_null_for_unlimited() -> None:
    """§2: a member that is null beside `std` is taken for unlimited."""

    def lenient(name: str, text: Any) -> dict[str, Any]:
        stated = json.loads(text)
        return {**agreement.STANDARD[name], **stated} if stated.get("std") == 1 else stated

    agreement._parameters = lenient


def states_std_unasked() -> None:
    """§2: an ACCEPT that does not list `std` states it in the parameters of `link`, if HELLO has done that."""
    accept = server.accept

    def echoing(payload: dict[str, Any]) -> dict[str, Any]:
        accepted = accept(payload)
        asked = json.loads((payload.get("extensions") or {}).get("link", "{}"))
        if asked.get("std") == 1:
            stated = {"std": 1, **agreement.LINK}
            accepted["extensions"] = {**accepted["extensions"], "link": json.dumps(stated)}
        return accepted

    server.accept = echoing  # type: ignore[assignment]


def acknowledges_behind_close() -> None:
    """§3: what has come before CLOSE is acknowledged later."""
    closed = session.Session._peer_has_closed

    def slow(self: session.Session) -> None:
        acknowledge = self.link.acknowledge
        self.link.acknowledge = lambda: asyncio.get_running_loop().call_later(0.2, acknowledge)
        closed(self)
        del self.link.acknowledge

    session.Session._peer_has_closed = slow  # type: ignore[method-assign]


def replaces_bases_in_use() -> None:
    """§9: a base leaves although another body needs it."""
    enter = context.State._enter

    def careless(self: context.State, content: bytes, replaced: context.Base | None) -> None:
        if replaced is not None:
            replaced.uses = 0
        enter(self, content, replaced)

    context.State._enter = careless  # type: ignore[method-assign]


def moves_messages() -> None:
    """§6: a client writes messages of a lost session again in the next one."""
    begin = client.Client._begin

    def moving(self: client.Client, transport: Any, fields: dict[str, Any]) -> session.Session:
        lost = self._session if self._session is not None and self._session.state is session.State.SUSPENDED else None
        over = begin(self, transport, fields)
        if lost is not None and lost is not over:
            for frame in lost.link.outbox._unacknowledged:
                if frame[0] == 0x10 | Kind.MESSAGE:
                    over.link.outbox.count(frame)
        return over

    client.Client._begin = moving  # type: ignore[method-assign]


def forgets_late_frames() -> None:
    """§4: a late frame is not counted."""
    handle = link.Link.handle

    def forgetting(self: link.Link, data: bytes) -> None:
        frame = frames.parse(data)
        is_own = self._is_own(frame.stream)
        late_cancel = frame.kind == Kind.CANCEL and not is_own and frame.stream not in self._requests
        late_reply = Kind.RESPONSE <= frame.kind <= Kind.ERROR and is_own and frame.stream not in self._calls
        if not (late_cancel or late_reply):
            handle(self, data)

    link.Link.handle = forgetting  # type: ignore[method-assign]


def charges_coded_bytes() -> None:
    """§5: a body in context is charged its coded bytes."""
    complete = outbox.Outbox._complete

    def cheaper(self: outbox.Outbox, stream: int, body: outbox.Body) -> None:
        self.credit.spend = lambda stream, charge: None
        complete(self, stream, body)
        del self.credit.spend

    outbox.Outbox._complete = cheaper  # type: ignore[method-assign]


def takes_any_expansion() -> None:
    """§4: a first frame may state any length of its content."""
    parse_head, most = frames.parse_head, frames.MAX_MESSAGE

    def lenient(frame: frames.Frame) -> frames.Head:
        frames.MAX_MESSAGE = 2**53 if frame.codec in frames.SIZED else most
        try:
            return parse_head(frame)
        finally:
            frames.MAX_MESSAGE = most

    link.parse_head = lenient


def nests_without_end() -> None:
    """§2: control messages nest as deep as they like."""
    control.MAX_DEPTH = 10_000


def states_credit_of_messages_only() -> None:
    """§5: on the next connection credit is stated for stream 0 alone."""
    resume = link.Link.resume

    def stating(self: link.Link, received: int) -> None:
        transmit = self._transmit
        self._transmit = lambda frame: None if frame[0] == 0x10 | Kind.CREDIT and frame[1] > 0 else transmit(frame)
        try:
            resume(self, received)
        finally:
            self._transmit = transmit

    link.Link.resume = stating  # type: ignore[method-assign]


def states_credit_first() -> None:
    """§6: on the next connection credit is stated before the requests that open its streams."""
    resume = link.Link.resume

    def hurrying(self: link.Link, received: int) -> None:
        for stream in self._calls:
            self._transmit(frames.signal(Kind.CREDIT, stream, frames.varint(self._incoming_credit.limit(stream))))
        resume(self, received)

    link.Link.resume = hurrying  # type: ignore[method-assign]


def agrees_twice() -> None:
    """§2: an algorithm that the client lists twice is agreed on twice."""
    known = agreement._known
    agreement._known = lambda names: [name for each in names for name in known([each])]


def negotiates_deflate() -> None:
    """§1: messages are compressed by an extension of WebSocket."""
    serve = server.serve
    server.serve = lambda *arguments, **options: serve(*arguments, **{**options, "compression": "deflate"})  # type: ignore[assignment]


def takes_long_extensions() -> None:
    """§2: an extension has any length."""
    check = server.check_hello

    def lenient(payload: dict[str, Any]) -> None:
        extensions = payload.get("extensions") or {}
        check({**payload, "extensions": {name: str(value)[:16_384] for name, value in extensions.items()}})

    server.check_hello = lenient


def keeps_half() -> None:
    """§9: half of the messages are kept that the two ends have agreed on."""
    begin = context.State.__init__

    def beginning(self: context.State, max_bytes: int, *arguments: Any) -> None:
        begin(self, max_bytes // 2, *arguments)

    context.State.__init__ = beginning  # type: ignore[method-assign]


def leaves_unacknowledged() -> None:
    """§3: an end that closes does not wait until everything is acknowledged."""
    outbox.Outbox.is_acknowledged = property(lambda self: True)  # type: ignore[assignment]


FAULTS: dict[str, Callable[[], None]] = {
    name: fault for name, fault in list(globals().items()) if callable(fault) and getattr(fault, "__module__", "") == __name__ and not name.startswith("_")
}
