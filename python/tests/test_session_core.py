"""The core of a session in virtual time: what it writes, when, and what it refuses."""

from __future__ import annotations

import json
import math
from typing import Any

import msgpack
import pytest

from parlance.core import frames
from parlance.core.agreement import Offer
from parlance.core.events import Established, Event, Leave, MessageReceived, Rejected, SessionReset, StreamOver
from parlance.core.limits import Limits, Timers
from parlance.core.outbox import Body
from parlance.core.session import SessionCore
from parlance.core.ticket import Ticket

NOW = 1_000.0
TIMERS = Timers()
EXTENSIONS = {"resume": {}, "rebuild": 1, "durable": 1, "move": 1, "replies": {}}
LINK = '{"max_streams":2,"message_window":20000,"stream_window":16384}'


class Peer:
    """A server by hand: it says what a test wants, and reads what the core writes."""

    def __init__(self, *, save: Any = None, ticket: Ticket | None = None, limits: Limits | None = None) -> None:
        offer = Offer(algorithms=("NONE",), extensions=EXTENSIONS, limits=limits or Limits())
        self.core = SessionCore(
            offer, timers=TIMERS, unix_ms=lambda: 1, nonce=lambda: bytes(16), save=save, ticket=ticket
        )
        self.now = NOW

    def open(self) -> dict[str, Any]:
        """Open a connection, and return the payload of HELLO."""
        self.core.open(self.now, "secret")
        (hello,) = self.written()
        value: dict[str, Any] = msgpack.unpackb(hello)
        assert value["type"] == "HELLO"
        return dict(value["payload"])

    def written(self) -> list[bytes]:
        """Return what the core wants to write now."""
        found = []
        while (frame := self.core.next_frame(self.now)) is not None:
            found.append(frame)
        return found

    def says(self, kind: str, payload: dict[str, Any] | None = None, session: str | None = "sess") -> list[Event]:
        message = {"type": kind, "session_id": session, "timestamp": 10_000, "payload": payload or {}}
        return self.core.receive(msgpack.packb(message), self.now)

    def accepts(self, *, resume: dict[str, Any] | None = None, **fields: Any) -> list[Event]:
        extensions = {"link": LINK, "resume": "{}", "rebuild": "1", **fields.pop("extensions", {})}
        ticket = {"token": "token-1", "window_ms": 60_000, **(resume or {})}
        payload = {"version": "1.0", "algorithms": ["NONE"], "extensions": extensions, "resume": ticket, **fields}
        return self.says("ACCEPT", payload)

    def established(self) -> Peer:
        self.open()
        (event,) = self.accepts()
        assert isinstance(event, Established)
        return self

    def passes(self, seconds: float) -> list[Event]:
        """Let time pass, and do what is due on the way."""
        until, events = self.now + seconds, []
        while (due := self.core.due) <= until:
            self.now = max(self.now, due)
            events += self.core.handle_timeout(self.now)
            if any(isinstance(event, Leave) for event in events):
                break
        self.now = until
        return events


def types_of(written: list[bytes]) -> list[str]:
    return [msgpack.unpackb(frame)["type"] if frame[0] >= 0x80 else f"{frame[0]:#x}" for frame in written]


def violation(peer: Peer, data: bytes) -> int:
    events = peer.core.receive(data, peer.now)
    assert isinstance(events[-1], Leave)
    assert peer.core.end is not None
    return events[-1].code


def test_hello_states_what_the_client_takes() -> None:
    hello = Peer().open()
    assert hello["nonce"] == bytes(16)
    assert hello["auth"] == {"token": "secret"}
    assert json.loads(hello["extensions"]["link"])["max_streams"] == 128
    assert "resume" not in hello


def test_nothing_is_written_before_accept_and_violations_end_the_handshake() -> None:
    for data in (b"\x10\x00\x00x", msgpack.packb({"type": "PING", "timestamp": 1}), b"\x99", b""):
        peer = Peer()
        peer.open()
        assert peer.written() == []
        assert violation(peer, data) == 4400


@pytest.mark.parametrize(
    "wrong",
    [
        {"algorithms": ["BROTLI"]},
        {"algorithms": []},
        {"version": "2.0"},
        {"encoding": "CL100K_BASE"},
        {"extensions": {"x.example/y": "1"}},
        {"max_payload_size": 2**30},
        {"resume": {"token": ""}},
        {"resume": {"recovered": True}},
        {"extensions": {"link": "[]"}},
        {"extensions": {"link": '{"max_streams":0}'}},
    ],
)
def test_an_accept_beyond_the_offer_is_refused(wrong: dict[str, Any]) -> None:
    peer = Peer()
    peer.open()
    events = peer.accepts(**wrong)
    assert isinstance(events[-1], Leave)
    assert events[-1].code == 4400


def test_silence_is_asked_about_and_then_ends_the_connection() -> None:
    peer = Peer().established()
    peer.written()
    assert peer.passes(24.9) == []
    assert peer.written() == []
    peer.passes(0.2)
    assert types_of(peer.written()) == ["PING"]
    peer.says("PONG")
    assert peer.passes(24.0) == []
    events = peer.passes(100.0)
    assert events == [Leave(4408, "nothing was heard")]
    assert types_of(peer.written()) == ["PING"] * 3


def test_an_unanswered_hello_is_given_up_and_wait_is_not_an_answer() -> None:
    peer = Peer()
    peer.open()
    peer.says("WAIT", session=None)
    assert peer.passes(30.1) == [Leave(4408, "no answer to HELLO")]


def test_frames_are_acknowledged_in_time_and_by_number() -> None:
    peer = Peer().established()
    peer.core.receive(b"\x10\x00\x00hi", peer.now)
    assert peer.written() == []
    peer.passes(0.2)
    assert peer.written() == [b"\x18\x01"]
    for _ in range(32):
        peer.core.receive(b"\x10\x00\x00hi", peer.now)
    assert peer.written() == [b"\x18\x21"]


def test_what_is_needed_later_is_stored_before_it_is_acknowledged() -> None:
    stored: list[Ticket] = []
    peer = Peer(save=stored.append).established()
    assert stored[-1] == Ticket("sess", "token-1", 0, 0, None)
    for _ in range(32):
        peer.core.receive(b"\x10\x00\x00hi", peer.now)
    assert stored[-1].received == 32
    assert peer.written() == [b"\x18\x20"]
    peer.core.lost(peer.now, 1006)
    hello = peer.open()
    assert (hello["resume"]["attempt"], stored[-1].attempt) == (1, 1)


def test_frames_come_again_as_the_same_bytes_until_they_are_acknowledged() -> None:
    peer = Peer().established()
    assert peer.core.link is not None
    for text in (b"one", b"two", b"three"):
        peer.core.link.send(Body(frames.MESSAGE, text))
    first = peer.written()
    peer.core.receive(b"\x18\x01", peer.now)
    assert peer.core.lost(peer.now, 1006) == []
    hello = peer.open()
    assert hello["resume"] == {"session_id": "sess", "token": "token-1", "received": 0, "attempt": 1}
    assert "nonce" not in hello
    peer.accepts(resume={"recovered": True, "received": 1, "token": "token-2"})
    assert peer.written() == [b"\x18\x00", *first[1:]]


@pytest.mark.parametrize("received", [0, 4])
def test_a_count_that_cannot_be_ends_the_session(received: int) -> None:
    peer = Peer().established()
    assert peer.core.link is not None
    for _ in range(3):
        peer.core.link.send(Body(frames.MESSAGE, b"x"))
    peer.written()
    peer.core.receive(b"\x18\x01", peer.now)
    peer.core.lost(peer.now, 1006)
    peer.open()
    events = peer.accepts(resume={"recovered": True, "received": received})
    assert isinstance(events[-1], Leave)


def test_credit_is_charged_and_a_frame_beyond_it_ends_the_session() -> None:
    limits = Limits(message_window=16_384, stream_window=16_384)
    peer = Peer(limits=limits).established()
    (event,) = peer.core.receive(b"\x10\x00\x00" + bytes(16_368), peer.now)
    assert isinstance(event, MessageReceived)
    assert violation(peer, b"\x10\x00\x00") == 4413
    peer = Peer(limits=limits).established()
    assert violation(peer, b"\x10\x00\x00" + bytes(16_369)) == 4413


def test_reading_grants_credit_and_a_large_body_is_let_through() -> None:
    limits = Limits(message_window=16_384, stream_window=16_384)
    peer = Peer(limits=limits).established()
    link = peer.core.link
    assert link is not None
    head = b"\x10\x00\x10\xc0\xb8\x02"
    assert peer.core.receive(head + bytes(10_000), peer.now) == []
    assert peer.written() == [b"\x19\x00" + b"\xd3\xb8\x02"]
    (event,) = peer.core.receive(b"\x10\x00\x00" + bytes(30_000), peer.now)
    assert isinstance(event, MessageReceived)
    link.consume(link.messages, event.body.charge)
    assert peer.written() == [frames.credit_frame(0, event.body.charge + 16_384)]


def test_a_request_has_its_number_when_a_stream_is_free() -> None:
    peer = Peer().established()
    link = peer.core.link
    assert link is not None
    streams = [link.open(Body(frames.REQUEST, b"?"), None) for _ in range(4)]
    assert peer.written() == [b"\x11\x01\x00?", b"\x11\x03\x00?"]
    link.cancel(streams[2])
    peer.core.receive(b"\x12\x01\x00!", peer.now)
    assert peer.written() == [b"\x11\x05\x00?"]
    assert [stream.id for stream in streams] == [1, 3, 0, 5]
    for late in (b"\x13\x01\x00late", b"\x14\x01", b"\x19\x01\xff\xff\x7f"):
        assert peer.core.receive(late, peer.now) == []
    assert violation(peer, b"\x14\x07") == 4400


def test_a_session_without_a_connection_ends_with_its_window() -> None:
    peer = Peer().established()
    link = peer.core.link
    assert link is not None
    link.open(Body(frames.REQUEST, b"?"), None)
    link.send(Body(frames.MESSAGE, b"sent"))
    peer.written()
    link.send(Body(frames.MESSAGE, b"not sent"))
    peer.core.lost(peer.now, 1006)
    assert peer.passes(59.9) == []
    reset, over = peer.passes(0.2)
    assert reset == SessionReset("window_passed", 1, 1)
    assert isinstance(over, StreamOver)
    assert over.error is not None
    assert over.error.code == "session_lost"
    assert "resume" not in peer.open()


def test_codes_that_end_a_session_and_those_that_do_not() -> None:
    for code, survives in ((1006, True), (1012, True), (4408, True), (1000, False), (4409, False), (4500, False)):
        peer = Peer().established()
        events = peer.core.lost(peer.now, code)
        assert (events == []) is survives, code
        assert (peer.core.ticket is not None) is survives, code


def test_closing_exchanges_close_and_waits_for_acknowledgement() -> None:
    peer = Peer().established()
    assert peer.core.link is not None
    peer.core.link.send(Body(frames.MESSAGE, b"last"))
    peer.core.close(peer.now, code="finished")
    assert types_of(peer.written()) == ["0x10", "CLOSE"]
    peer.core.receive(b"\x10\x00\x00still read", peer.now)
    assert isinstance(peer.says("CLOSE")[0], Event.__args__)
    assert b"\x18\x01" in peer.written()
    events = peer.core.receive(b"\x18\x01", peer.now)
    assert events == [Leave(1000)]
    assert peer.core.end is None


def test_closing_is_bounded_and_a_frame_after_close_is_refused() -> None:
    peer = Peer().established()
    peer.core.close(peer.now)
    peer.written()
    assert peer.passes(5.1) == [Leave(1000)]
    peer = Peer().established()
    peer.says("CLOSE")
    assert violation(peer, b"\x10\x00\x00x") == 4400


@pytest.mark.parametrize("is_lost", [False, True])
def test_closing_cuts_a_request_short_that_the_peer_does_not_read(is_lost: bool) -> None:
    peer = Peer().established()
    assert peer.core.link is not None
    peer.core.link.open(Body(frames.REQUEST, bytes(40_000)), None)
    sent = peer.written()
    peer.core.close(peer.now)
    # The frames that were written are not acknowledged yet, so the peer may still read them.
    assert peer.written() == []
    assert peer.passes(1) == []
    assert peer.written() == []
    peer.core.receive(b"\x18" + bytes([len(sent)]), peer.now)
    assert peer.written() == []
    peer.passes(0.4)
    if is_lost:
        peer.core.lost(peer.now, 1006)
        peer.open()
        peer.accepts(resume={"recovered": True, "received": len(sent)})
        # Its reader may have granted credit meanwhile, which comes now.
        assert types_of(peer.written()) == ["0x18"]
        peer.passes(0.4)
    assert peer.written() == []
    peer.passes(0.2)
    assert types_of(peer.written()) == ["CLOSE"]
    assert peer.core.closing.cut == 1
    (over, leave) = peer.says("CLOSE")[-2:]
    assert isinstance(over, StreamOver)
    assert over.error is not None
    assert over.error.code == "session_closed"
    assert leave == Leave(1000)


def test_closing_waits_for_messages_that_the_peer_does_not_read() -> None:
    peer = Peer().established()
    assert peer.core.link is not None
    for _ in range(3):
        peer.core.link.send(Body(frames.MESSAGE, bytes(10_000)))
    sent = peer.written()
    peer.core.close(peer.now)
    peer.core.receive(b"\x18" + bytes([len(sent)]), peer.now)
    assert peer.written() == []
    assert peer.passes(4.9) == []
    assert peer.written() == []
    assert peer.passes(0.2) == [Leave(1000)]


def test_a_session_that_closes_for_a_drain_is_followed_although_another_node_ends_it() -> None:
    peer = Peer().established()
    peer.says("GOAWAY", {"retry_after_ms": 0})
    assert "CLOSE" in types_of(peer.written())
    assert peer.core.lost(peer.now, 1006) == []
    peer.open()
    # This node does not drain, and says nothing of it.
    peer.accepts(resume={"recovered": True, "received": 0})
    assert peer.core.link is not None
    peer.core.link.open(Body(frames.REQUEST, b"waits for the next one"), None)
    assert types_of(peer.written()) == ["0x18", "CLOSE"]
    assert peer.says("CLOSE")[-1] == Leave(1000)
    assert peer.core.lost(peer.now, 1000) == []
    peer.open()
    peer.accepts()
    assert types_of(peer.written()) == ["0x11"]
    assert not peer.core.is_draining


@pytest.mark.parametrize("closes", [False, True])
def test_what_is_under_way_at_the_deadline_of_a_drain_is_lost(closes: bool) -> None:
    peer = Peer().established()
    link = peer.core.link
    assert link is not None
    under_way = link.open(Body(frames.REQUEST, b"under way"), None)
    peer.written()
    peer.says("GOAWAY", {"retry_after_ms": 20})
    waiting = link.open(Body(frames.REQUEST, b"waits for the next one"), None)
    events = peer.says("CLOSE", {"reason": "SERVER_SHUTDOWN"})
    if closes:
        peer.core.close(peer.now)
    peer.written()
    events += [*peer.core.receive(b"\x18\x01", peer.now), *peer.core.lost(peer.now, 1000)]
    resets = [event for event in events if isinstance(event, SessionReset)]
    over = {event.stream: event.error.code for event in events if isinstance(event, StreamOver) and event.error}
    if closes:
        assert (resets, over) == ([], {under_way: "session_closed", waiting: "session_closed"})
    else:
        assert (resets, over) == ([SessionReset("goaway")], {under_way: "session_lost"})
        peer.open()
        peer.accepts()
        assert types_of(peer.written()) == ["0x11"]


def test_messages_of_a_drained_session_move_or_are_reported() -> None:
    peer = Peer().established()
    link = peer.core.link
    assert link is not None
    link.send(Body(frames.MESSAGE, bytes(40_000)))
    link.send(Body(frames.MESSAGE, b"later"))
    peer.written()
    peer.says("GOAWAY")
    peer.says("CLOSE")
    peer.written()
    events = [*peer.passes(5.1), *peer.core.lost(peer.now, 1000)]
    assert SessionReset("goaway", unknown=1) in events
    peer.open()
    peer.accepts()
    (frame,) = peer.written()
    assert frame.endswith(b"later")


def test_a_rejection_says_when_to_come_back() -> None:
    peer = Peer()
    peer.open()
    payload = {"code": "SERVER_BUSY", "message": "full", "retryable": True, "retry_after_ms": 1_500}
    (event,) = peer.says("REJECT", payload, session=None)
    assert isinstance(event, Rejected)
    assert (event.error.retryable, event.error.retry_after) == (True, 1.5)


def test_a_session_is_rebuilt_with_what_was_stored() -> None:
    peer = Peer(ticket=Ticket("sess", "token-9", 40, 3))
    hello = peer.open()
    expected = {"session_id": "sess", "token": "token-9", "received": 40, "attempt": 4, "rebuild": True}
    assert hello["resume"] == expected
    events = peer.accepts(resume={"recovered": True, "rebuilt": {"stream": 9, "cancelled": [7, 9]}})
    assert events[1:] == [SessionReset("reloaded", interrupted=(7, 9))]
    assert peer.core.link is not None
    peer.core.link.open(Body(frames.REQUEST, b"?"), None)
    assert peer.written()[-1] == b"\x11\x0b\x00?"


def test_rates_are_kept_by_waiting() -> None:
    peer = Peer()
    peer.open()
    peer.accepts(limits={"messagesPerMinute": 60})
    assert peer.core.link is not None
    for index in range(62):
        peer.core.link.send(Body(frames.MESSAGE, bytes([index])))
    assert len(peer.written()) == 60
    assert peer.core.due == pytest.approx(NOW + 1.0)
    peer.now += 1.0
    assert len(peer.written()) == 1


def test_the_clock_of_the_server_measures_its_credentials() -> None:
    peer = Peer().established()
    (event,) = peer.says("AUTH", {"expires_at": 10_000 + 90_000})
    assert event.within == 90.0  # type: ignore[union-attr]
    assert peer.core.renew("new")
    assert not peer.core.renew("newer")
    peer.says("AUTH", {"expires_at": None})
    assert peer.core.renew("newest")
    assert math.isfinite(peer.core.due)


def test_options_that_cannot_be_are_refused() -> None:
    for wrong in ({"message_window": 16_383}, {"max_streams": 0}, {"max_metadata_size": 500_000}):
        with pytest.raises(ValueError, match="at least"):
            Limits(**wrong)


def test_a_server_without_a_link_is_refused_by_name() -> None:
    peer = Peer()
    peer.open()
    (event,) = peer.says("ACCEPT", {"version": "1.0", "algorithms": ["NONE"]})
    assert isinstance(event, Leave)
    assert peer.core.end is not None
    assert (event.code, peer.core.end.code) == (4400, "unsupported")
