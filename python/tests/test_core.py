"""Pieces of the core, without a connection."""

from __future__ import annotations

import math
import random
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlance.core import frames, maps, wire, zstd
from parlance.core.closing import Closing
from parlance.core.context import ContextDecoder, ContextEncoder, ContextState, common_prefix, common_suffix
from parlance.core.errors import ParlanceError, RequestError, close_code_of, close_reason
from parlance.core.rates import Bucket
from parlance.core.ticket import Have, Ticket

numbers = st.integers(0, wire.MAX_SAFE)


def code_of(action: object, *args: object) -> str:
    with pytest.raises(ParlanceError) as caught:
        action(*args)  # type: ignore[operator]
    return caught.value.code


@given(numbers, st.binary(max_size=3))
def test_a_varint_is_read_as_it_was_written(number: int, rest: bytes) -> None:
    coded = wire.varint(number)
    assert len(coded) == max(1, (number.bit_length() + 6) // 7)
    assert wire.read_varint(coded + rest, 0) == (number, len(coded))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "truncated"),
        (b"\x80", "truncated"),
        (b"\x80\x00", "bad_varint"),
        (b"\xff\xff\xff\xff\xff\xff\xff\x10", "bad_varint"),
        (b"\xff" * 8 + b"\x01", "bad_varint"),
    ],
)
def test_other_varints_are_refused(data: bytes, code: str) -> None:
    assert code_of(wire.read_varint, data, 0) == code
    assert wire.read_varint(b"\xff\xff\xff\xff\xff\xff\xff\x0f", 0)[0] == wire.MAX_SAFE


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=8).filter(lambda key: key != "__proto__"), json_like, max_size=5))
def test_a_map_is_read_as_it_was_written(value: dict[str, object]) -> None:
    if "__proto__" not in repr(value):
        assert maps.unpack(maps.pack(value)) == value


def test_bounds_of_maps() -> None:
    assert maps.unpack(maps.pack({"a": [0] * 511})) == {"a": [0] * 511}
    assert code_of(maps.unpack, maps.pack({"a": [0] * 512})) == "message_too_large"
    deep: list[object] = []
    for _ in range(30):
        deep = [deep]
    assert maps.unpack(maps.pack({"a": deep}))
    assert code_of(maps.unpack, maps.pack({"a": [deep]})) == "message_too_large"
    for data in (b"\x81\xc0\x00", b"\x81\xa1a\xd4\x00\x00", b"\x81\xa1a\xd6\xff\x00\x00\x00\x00", b"\x80\x00", b"\x90"):
        assert code_of(maps.unpack, data) == "bad_message"
    assert maps.unpack(b"\x81\x07\xcf\xff\xff\xff\xff\xff\xff\xff\xff") == {"7": float(2**64 - 1)}


@given(st.text(max_size=300), st.booleans(), st.floats(0, 1e6) | st.none())
def test_an_error_frame_is_read_as_it_was_written(message: str, retryable: bool, after: float | None) -> None:
    error = RequestError("some_code", message, retryable=retryable, retry_after=after, data={"a": [1]})
    read = frames.error_of(frames.error_map(error))
    assert isinstance(read, RequestError)
    assert (read.code, read.retryable, read.data) == ("some_code", retryable, {"a": [1]})
    assert (message.encode()[:1_024].decode(errors="ignore") or "some_code") == read.message
    assert after is None or read.retry_after == pytest.approx(after, abs=0.001)


def test_an_unexpected_failure_is_not_told() -> None:
    read = frames.error_of(frames.error_map(ValueError("secret")))
    assert (read.code, isinstance(read, RequestError), "secret" in read.message) == ("internal", False, False)


def test_close_codes_and_reasons() -> None:
    assert close_code_of(ParlanceError("window_exceeded")) == 4413
    assert close_code_of(ParlanceError("bad_varint")) == 4400
    reason = close_reason(ParlanceError("bad_frame", "ü" * 200))
    assert len(reason.encode()) <= 123
    assert reason.startswith("bad_frame: ü")


# --- context


def test_the_state_of_the_table_in_the_document() -> None:
    state = ContextState(max_bytes=20, max_messages=3)
    for name, size in (("A", 6), ("B", 6)):
        state.begin(ord(name), 0)
        state.complete(ord(name), name.encode() * size, is_part=False, replaces=False)
    assert [entry.content[:1] for entry in state.messages] == [b"B", b"A"]
    state.begin(3, 3)
    state.complete(3, b"C" * 8, is_part=False, replaces=True)
    assert [entry.content[:1] for entry in state.messages] == [b"C", b"B"]
    state.begin(4, 3)
    for stream, content in ((5, b"E" * 7), (6, b"F" * 15)):
        state.begin(stream, 0)
        state.complete(stream, content, is_part=False, replaces=False)
        assert [entry.content[:1] for entry in state.messages] == [b"E", b"B"]
    state.complete(4, b"D" * 9, is_part=False, replaces=False)
    assert [entry.content[:1] for entry in state.messages] == [b"D", b"E"]
    state.begin(7, 0)
    state.complete(7, b"G" * 21, is_part=False, replaces=False)
    assert [entry.content[:1] for entry in state.messages] == [b"D", b"E"]


@pytest.mark.skipif(not zstd.AVAILABLE, reason="zstandard is not installed")
@given(st.integers(0, 2**32))
def test_two_ends_keep_the_same_state(seed: int) -> None:
    rng = random.Random(seed)
    encoder, decoder = ContextEncoder(4_000, 4), ContextDecoder(4_000, 4)
    history = b'{"messages":['
    crcs: dict[int, int] = {}
    for step in range(30):
        stream, is_part = rng.randrange(1, 9, 2), rng.random() < 0.6
        history += bytes(rng.choices(b'{"role":} abc', k=rng.randrange(1, 90)))
        content = history[-rng.randrange(1, 2_000) :] if rng.random() < 0.8 else rng.randbytes(rng.randrange(300))
        coded = encoder.encode(stream, content, is_part=is_part)
        encoder.state.begin(stream, coded.base)
        encoder.state.complete(stream, content, is_part=is_part, replaces=coded.replaces)
        decoder.begin(stream, coded.data[:60])
        assert decoder.complete(stream, coded.data, is_part=is_part, most=10_000) == content
        if is_part:
            crcs[stream] = zlib.crc32(content, crcs.get(stream, 0))
        if step % 7 == 6 and stream in crcs:
            crc = encoder.state.end(stream)
            assert crc == crcs.pop(stream)
            decoder.end(stream, crc.to_bytes(4, "little"))
        assert [entry.content for entry in encoder.state.messages] == [e.content for e in decoder.state.messages]


@pytest.mark.skipif(not zstd.AVAILABLE, reason="zstandard is not installed")
def test_zstd_is_bounded() -> None:
    packed = zstd.compress(bytes(1_000_000))
    assert zstd.decompress(packed, 1_000_000) == bytes(1_000_000)
    assert code_of(zstd.decompress, packed, 999_999) == "decompressed_too_large"
    for damaged in (packed[:-1], packed + b"x", b"", b"\x50\x2a\x4d\x18\x00\x00\x00\x00", packed[:8] + b"\xff" * 8):
        assert code_of(zstd.decompress, damaged, 2_000_000) in ("bad_compression", "decompressed_too_large")


@given(st.binary(max_size=400), st.binary(max_size=400), st.binary(max_size=50))
def test_common_beginnings_and_ends(a: bytes, b: bytes, shared: bytes) -> None:
    for left, right in ((shared + a, shared + b), (a + shared, b + shared), (a, a)):
        prefix = common_prefix(left, right)
        most = min(len(left), len(right))
        assert left[:prefix] == right[:prefix]
        assert prefix == most or left[prefix] != right[prefix]
        suffix = common_suffix(left, right, most - prefix)
        assert left[len(left) - suffix :] == right[len(right) - suffix :]
        assert suffix == most - prefix or left[-suffix - 1] != right[-suffix - 1]


# --- rates, closing, tickets


def test_a_bucket_gives_a_minute_at_once_and_then_as_the_rate_allows() -> None:
    bucket = Bucket(60, 60.0)
    for _ in range(60):
        assert bucket.wait(100.0) == 0
        bucket.take(100.0)
    assert bucket.wait(100.0) == pytest.approx(1.0)
    assert bucket.wait(101.0) == 0
    assert Bucket(math.inf, 60.0).wait(0.0) == 0


def test_the_closing_handshake_is_that_of_the_document() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/protocol/session.md").read_text("utf-8")
    table = page.split("<!-- begin table closing -->")[1].split("<!-- end table closing -->")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.strip().splitlines()[2:]]
    steps = (Closing.begin, Closing.send, Closing.receive, Closing.lose)
    assert len(rows) == len(Closing)
    for state, *expected in rows:
        for step, after in zip(steps, expected, strict=True):
            assert step(Closing(state)) is Closing(after or state), (state, step)


@given(st.builds(Have, *[numbers] * 5) | st.none(), numbers, numbers)
def test_a_ticket_is_read_as_it_was_stored(have: Have | None, received: int, attempt: int) -> None:
    ticket = Ticket("sess_1", "token", received, attempt, have)
    assert Ticket.from_json(ticket.as_json()) == ticket
    for broken in (None, [], {}, {**ticket.as_json(), "attempt": -1}, {**ticket.as_json(), "have": {"sent": "1"}}):
        assert Ticket.from_json(broken) is None
