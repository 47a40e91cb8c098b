"""Sessions over HTTP: with which transport a connection begins, and networks that no WebSocket passes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

import parlance
from conftest import QUICK, Proxy, Server, run, tally
from parlance import ParlanceError, driver
from parlance.core.http_stream import HttpStream
from parlance.core.records import RecordReader, encode_close, encode_record
from parlance.transports import dialer
from parlance.transports.http_connection import HttpConnection
from parlance.transports.order import Order
from parlance.transports.web_socket import WebSocket

KEY = bytes(range(0xE0, 0xF0)) + b"n"
FRAME, ACK = b"\x11\x01\x00hi", b"\x18\x20"


class TestRecords:
    @given(st.lists(st.binary(min_size=1, max_size=400)), st.lists(st.integers(0, 5_000)), st.text(max_size=20))
    def test_are_the_same_however_their_bytes_are_cut(self, frames: list[bytes], cuts: list[int], reason: str) -> None:
        data = encode_close(0, "ignored") + b"".join(map(encode_record, frames)) + encode_close(4408, reason)
        reader = RecordReader(1_000)
        places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
        found = [frame for start, end in itertools.pairwise(places) for frame in reader.receive(data[start:end])]
        assert (found, reader.closed) == (frames, (4408, reason))

    def test_are_refused_by_their_length_alone(self) -> None:
        reader = RecordReader(1_000)
        assert len(reader.receive(encode_record(bytes(1_000)))) == 1
        with pytest.raises(ParlanceError, match="message_too_large"):
            reader.receive(encode_record(bytes(1_001))[:2])
        reader = RecordReader(1_000)
        assert reader.receive(b"\x80\x80\x80\x80") == []
        with pytest.raises(ParlanceError, match="bad_frame"):
            reader.receive(b"\x80")


class TestStream:
    @staticmethod
    def opened() -> HttpStream:
        stream = HttpStream(1_000)
        assert (stream.receive(encode_record(KEY)), stream.is_open) == ([], True)
        return stream

    def test_the_example_of_the_document(self) -> None:
        stream = self.opened()
        stream.push(FRAME, 0.0)
        stream.push(ACK, 0.0)
        stream.close(1000, "NORMAL")
        head = "15 01 00 00 00 e0 e1 e2 e3 e4 e5 e6 e7 e8 e9 ea eb ec ed ee ef 6e"
        frames = "05 11 01 00 68 69 02 18 20 00 e8 03 06 4e 4f 52 4d 41 4c"
        assert stream.next_request() == bytes.fromhex(head + frames)
        assert stream.is_last

    def test_one_request_is_under_way(self) -> None:
        stream = self.opened()
        assert stream.due == float("inf")
        stream.push(FRAME, 0.0)
        assert stream.due < 0
        stream.next_request()
        stream.push(FRAME, 0.0)
        assert stream.due == float("inf")
        stream.answered()
        assert stream.next_request()[1:5] == b"\x02\x00\x00\x00"

    def test_an_acknowledgement_waits_for_company(self) -> None:
        stream = self.opened()
        stream.push(b"\x18\x01", 5.0)
        stream.push(ACK, 5.5)
        assert (stream.due, stream.waiting) == (6.0, 2)
        stream.receive(encode_record(bytes(900)) * 80)
        assert stream.due < 0
        assert stream.next_request().endswith(encode_record(ACK))
        stream.answered()
        stream.push(ACK, 7.0)
        stream.push(FRAME, 7.0)
        assert stream.due < 0

    def test_requests_are_short_but_for_a_long_frame(self) -> None:
        stream = self.opened()
        for size in (40_000, 30_000, 100_000, 10):
            stream.push(bytes(size), 0.0)
        sizes = []
        while stream.waiting:
            before = stream.waiting
            stream.next_request()
            stream.answered()
            sizes.append(before - stream.waiting)
        assert sizes == [40_000, 30_000, 100_000, 10]


class TestFramesOfAWebSocket:
    @staticmethod
    def opened(max_size: int = 100_000) -> WebSocket:
        connection = WebSocket(ClientProtocol(parse_uri("ws://x/"), state=State.OPEN, max_size=max_size))
        connection.connection_made(MagicMock())
        connection.response = MagicMock()
        return connection

    @staticmethod
    async def read(sent: bytes, cuts: list[int]) -> list[bytes | str]:
        """Feed bytes in pieces, and return the messages until the end."""
        connection, messages = TestFramesOfAWebSocket.opened(), []
        for start, end in itertools.pairwise(sorted({0, len(sent), *(cut % len(sent) for cut in cuts)})):
            connection.data_received(sent[start:end])
        connection.eof_received()
        connection.connection_lost(None)
        with contextlib.suppress(ConnectionClosed):
            while True:
                messages += await connection.recv_all()
        close = connection.protocol.close_rcvd or connection.protocol.close_sent
        return [*messages, str(close.code if close is not None else 1006)]

    @given(
        st.lists(st.sampled_from((0, 1, 125, 126, 127, 65_535, 65_536)), min_size=1, max_size=8),
        st.lists(st.booleans(), min_size=8, max_size=8),
        st.lists(st.integers(0, 2**20), max_size=12),
    )
    def test_are_the_same_however_their_bytes_are_cut(
        self, sizes: list[int], pings: list[bool], cuts: list[int]
    ) -> None:
        bodies = [bytes([index]) * size for index, size in enumerate(sizes)]
        sent = b"".join(
            (Frame(Opcode.PING, b"?").serialize(mask=False) if ping else b"")
            + Frame(Opcode.BINARY, body).serialize(mask=False)
            for body, ping in zip(bodies, pings, strict=False)
        )
        close = Frame(Opcode.CLOSE, Close(1012, "").serialize()).serialize(mask=False)
        assert asyncio.run(self.read(sent + close, cuts)) == [*bodies, "1012"]

    @pytest.mark.parametrize(
        ("frames", "expected"),
        [
            ([Frame(Opcode.BINARY, b"a", fin=False), Frame(Opcode.CONT, b"b")], [b"1", b"ab", b"2", "1006"]),
            ([Frame(Opcode.TEXT, b"text")], [b"1", "text", b"2", "1006"]),
            ([Frame(Opcode.BINARY, bytes(100_000))], [b"1", bytes(100_000), b"2", "1006"]),
            ([Frame(Opcode.BINARY, bytes(100_001))], [b"1", "1009"]),
            ([Frame(Opcode.CONT, b"b")], [b"1", "1002"]),
            ([Frame(Opcode.BINARY, b"a", rsv1=True)], [b"1", "1002"]),
        ],
    )
    def test_of_other_kinds_are_read_by_the_library_in_their_turn(self, frames: list[Any], expected: list[Any]) -> None:
        own = [Frame(Opcode.BINARY, b"1"), Frame(Opcode.BINARY, b"2")]
        sent = b"".join(raw(frame) for frame in (own[0], *frames, own[1]))
        for cut in range(min(len(sent), 40)):
            assert asyncio.run(self.read(sent, [cut])) == expected

    def test_that_are_masked_are_refused(self) -> None:
        for opcode in (Opcode.BINARY, Opcode.PING):
            assert asyncio.run(self.read(Frame(opcode, b"a").serialize(mask=True), [])) == ["1002"]

    def test_of_many_pieces_are_copied_once(self) -> None:
        async def main() -> None:
            connection = self.opened(max_size=2**25)
            sent = Frame(Opcode.BINARY, bytes(2**25)).serialize(mask=False)
            # Copied with each of 32,768 pieces, it would take minutes.
            for start in range(0, len(sent), 1024):
                connection.data_received(sent[start : start + 1024])
            assert await connection.recv_all() == [sent[10:]]

        asyncio.run(main())

    def test_that_nobody_reads_stop_the_socket(self) -> None:
        async def main() -> None:
            connection = self.opened()
            frame = Frame(Opcode.BINARY, bytes(60_000)).serialize(mask=False)
            for _ in range(17):
                connection.data_received(frame)
            connection.transport.pause_reading.assert_not_called()
            connection.data_received(frame)
            connection.transport.pause_reading.assert_called_once()
            assert len(await connection.recv_all()) == 18
            connection.transport.resume_reading.assert_called_once()

        asyncio.run(main())


def raw(frame: Frame) -> bytes:
    """Return a frame as bytes, sound or not."""
    data = replace(frame, rsv1=False).serialize(mask=False)
    return bytes([data[0] | frame.rsv1 << 6]) + data[1:]


class TestOrder:
    def test_the_last_one_that_was_answered_is_first(self) -> None:
        order = Order(("websocket", "http"))
        assert order.turns(0) == ("websocket", "http")
        order.answered("http")
        assert order.turns(1) == ("http", "websocket")
        assert order.turns(1, ready="websocket") == ("websocket", "http")
        assert Order(("http",)).turns(0) == ("http",)

    def test_the_second_one_is_tried_once_in_ten_seconds_while_neither_opens(self) -> None:
        order = Order(("websocket", "http"))
        order.passed_over(5)
        assert order.turns(14) == ("websocket",)
        assert order.turns(15) == ("websocket", "http")
        order.passed_over(15)
        order.answered("websocket")
        assert order.turns(16) == ("websocket", "http")

    def test_three_short_lives_in_a_row_exchange_them(self) -> None:
        order = Order(("websocket", "http"))
        for lived in (1, 1, 6, 1, 1):
            order.lost("websocket", lived)
        assert order.names == ("websocket", "http")
        order.lost("websocket", 1)
        assert order.names == ("http", "websocket")
        for _ in range(5):
            order.lost("http", 1)
        assert order.names == ("http", "websocket")


def test_a_session_begins_once_over_http_where_no_websocket_passes(
    networks: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "PATIENCE", 0.5)
    monkeypatch.setattr(dialer, "PATIENCE", 0.5)

    async def visit(network: str) -> None:
        async with parlance.connect(networks[network], token=network, reconnect=QUICK) as session:
            assert session.transport == "http"
            assert (await session.request(metadata={"begun": True})).json() == 1

    async def main() -> None:
        await asyncio.gather(*map(visit, ("refuse", "hold", "drop the answers to", "hold the frames behind")))

    run(main())


def test_each_message_arrives_once_through_cuts_where_upgrades_are_refused(networks: dict[str, str]) -> None:
    async def main() -> None:
        async with (
            Proxy(networks["refuse"]).serving() as proxy,
            parlance.connect(proxy.url, token="cuts", reconnect=QUICK) as session,
        ):
            for index in range(500):
                await session.send(f"{index}")
                echo = await session.request(f"{index}", metadata={"test": "echo"})
                assert echo.text == f"{index}"
                if index % 50 == 25:
                    proxy.cut()
            told = await tally(session, 500)
            assert told["messages"] == 500
            assert (proxy.cuts, session.transport) == (10, "http")

    run(main())


def test_a_session_returns_to_a_websocket(
    networks: dict[str, str], plain_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_PROBES", (0.05,) * 100)

    async def main() -> None:
        async with (
            Proxy(networks["refuse"]).serving() as proxy,
            parlance.connect(proxy.url, token="back", reconnect=QUICK) as session,
        ):
            before = session.id
            assert session.transport == "http"
            proxy.point(plain_server.url)
            while session.transport != "websocket":
                assert (await session.request("on", metadata={"test": "echo"})).text == "on"
            assert session.id == before

    run(main())


@pytest.mark.parametrize("transports", [(), ("http", "http"), ("tcp",)])
def test_unknown_transports_are_refused(transports: tuple[str, ...]) -> None:
    with pytest.raises(ParlanceError, match="invalid_option"):
        parlance.connect("ws://localhost/", transports=transports)


def test_the_error_is_that_of_the_first_transport(server: Server) -> None:
    async def main() -> None:
        for transports, why in (
            (("websocket", "http"), "HTTP 404 in place of a WebSocket"),
            (("http",), "HTTP 4.. in place of a session over HTTP"),
        ):
            with pytest.raises(ParlanceError, match=why) as caught:
                await parlance.connect(server.url + "/nothing", transports=transports)
            assert (caught.value.code, caught.value.retryable) == ("connection_failed", False)

    run(main())


def test_a_token_that_is_refused_over_http(server: Server) -> None:
    async def main() -> None:
        with pytest.raises(ParlanceError, match="rejected"):
            await parlance.connect(server.url, token="wrong", transports=("http",))
        async with asyncio.timeout(60), server.connect(transports=("http",)) as session:
            await session.send("one")
            assert await session.close() == 0

    run(main())


def test_a_response_that_fails_as_its_connection_ends_is_no_error_of_the_loop() -> None:
    async def main() -> None:
        connection = HttpConnection(MagicMock(), "ws://localhost/", HttpStream(100), ConnectionError)

        async def chunks() -> AsyncIterator[bytes]:
            connection._end()
            raise ConnectionError
            yield b""

        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        connection._chunks = chunks()
        with pytest.raises(ConnectionClosed):
            await connection.recv_all()
        gc.collect()
        assert told == []

    run(main())
