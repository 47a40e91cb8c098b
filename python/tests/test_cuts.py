"""Connections that are cut, and processes that die."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import zlib
from pathlib import Path
from typing import Any

import pytest

import parlance
from conftest import QUICK, Proxy, Server, run, spawn, tally
from parlance import Message, ParlanceError, RequestContext
from parlance.transports.dialer import Dialer


async def cutting(proxy: Proxy, seed: int) -> None:
    """Cut all connections again and again, at random offsets of what the server sends."""
    rng = random.Random(seed)
    while True:
        limit = rng.randrange(200, 4_000)
        reached = asyncio.Event()
        proxy.on_bytes = lambda total, limit=limit, reached=reached: reached.set() if total >= limit else None
        await reached.wait()
        await asyncio.sleep(rng.random() * 0.01)
        proxy.cut()


def test_connections_that_are_lost_soon_are_opened_less_and_less_often(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with server.connect(reconnect=parlance.Reconnect(min_delay=0.1, max_delay=10.0)) as session:
            driver = session._open.driver
            monkeypatch.setattr(random, "random", lambda: 1.0)

            def delay(lasted: float) -> float:
                now = session._open.loop.time()
                driver.established()
                with monkeypatch.context() as moved:
                    moved.setattr(driver, "_opened_at", now - lasted)
                    delay = driver._delay(None)
                driver._opened_at = None
                return delay

            delays = [delay(0) for _ in range(10)]
            assert delays[:3] == [0.1, 0.2, 0.4]
            assert max(delays) == delays[-1] == 1.6
            # No connection between: they grow as usual.
            assert [driver._delay(None) for _ in range(3)] == [3.2, 6.4, 10.0]
            assert delay(5) == 0.1

    run(main())


def test_a_token_function_that_does_not_answer_holds_nothing_up(plain_server: Server) -> None:
    async def main() -> None:
        calls = cancelled = 0

        async def token() -> str:
            nonlocal calls, cancelled
            calls += 1
            if calls != 2:
                try:
                    await asyncio.Event().wait()
                finally:
                    cancelled += 1
            return "ann"

        timers = parlance.Timers(accept=0.2, closing=0.5)
        async with Proxy(plain_server.url).serving() as proxy:
            with pytest.raises(ParlanceError, match="has not answered within") as caught:
                await parlance.connect(proxy.url, token=token, reconnect=None, timers=timers)
            assert (caught.value.code, caught.value.retryable) == ("connection_failed", True)
            async with parlance.connect(proxy.url, token=token, reconnect=QUICK, timers=timers) as session:
                proxy.cut()
                while calls < 4:
                    await asyncio.sleep(0.01)
                # It closes although the function hangs.
                await session.close()
            assert cancelled == calls - 1

    run(main())


#: At night five times as much, which is 10,000 bodies each way through 100 cuts.
TIMES = 5 if os.environ.get("PARLANCE_TESTS") == "full" else 1


@pytest.mark.parametrize(("transport", "count"), [("websocket", 2_000 * TIMES), ("http", 500 * TIMES)])
def test_everything_arrives_once_and_in_order_through_cuts(plain_server: Server, transport: str, count: int) -> None:

    async def answer(request: Message, context: RequestContext) -> str:
        return request.text

    async def main() -> None:
        async with Proxy(plain_server.url).serving() as proxy:
            cutter = asyncio.create_task(cutting(proxy, seed=7))
            async with parlance.connect(
                proxy.url,
                token="chaos",
                reconnect=QUICK,
                transports=(transport,),
                on_request=answer,
                on_reset=lambda reset: pytest.fail(reset.code),
            ) as session:
                texts = [f"{index} " + "x" * (index * 37 % 1_500) for index in range(count)]

                async def talk() -> None:
                    for text in texts:
                        await session.send(text)

                async def ask(number: int) -> None:
                    for index in range(number, count, 8):
                        reply = await session.request(texts[index], metadata={"test": "echo"})
                        assert reply.text == texts[index]

                async def read() -> None:
                    for _ in range(10):
                        wish = {"test": "stream", "parts": 100, "size": 300}
                        parts = [part.text async for part in session.stream(metadata=wish)]
                        assert parts == [f"part {index} ".ljust(300, ".") for index in range(1, 101)]

                async def hear() -> None:
                    wish = {"test": "say", "messages": count, "size": 200}
                    # It is answered when all are read: they are more than the window.
                    saying = asyncio.create_task(session.request(metadata=wish))
                    expected = iter(range(1, count + 1))
                    async for message in session:
                        number = next(expected)
                        assert message.text == f"message {number} ".ljust(200, ".")
                        if number == count:
                            break
                    await saying

                async def be_asked() -> None:
                    for _ in range(20):
                        wish = {"test": "ask", "requests": 10, "size": 500}
                        for told in (await session.request(metadata=wish)).json():
                            assert told == {"parts": ["question 1 ".ljust(500, ".")], "error": None}

                await asyncio.gather(talk(), read(), hear(), be_asked(), *(ask(number) for number in range(8)))
                while proxy.cuts < 20 * TIMES:
                    await ask(0)
                told = await tally(session, count)
                assert (told["messages"], told["crc"]) == (count, zlib.crc32("".join(texts).encode()))
                cutter.cancel()
                await asyncio.gather(cutter, return_exceptions=True)

    run(main())


def test_a_cut_before_the_first_answer_is_followed_by_another_attempt(server: Server) -> None:
    async def main() -> None:
        async with Proxy(server.url).serving() as proxy:
            cuts = iter(range(3))

            def cut(total: int) -> None:
                if next(cuts, None) is not None:
                    proxy.cut()

            proxy.on_bytes = cut
            async with parlance.connect(proxy.url, token="ann", reconnect=QUICK) as session:
                assert (await session.request("here", metadata={"test": "echo"})).text == "here"
            assert proxy.cuts == 3

    run(main())


def test_without_reconnect_a_cut_ends_the_session(server: Server) -> None:
    async def main() -> None:
        async with (
            Proxy(server.url).serving() as proxy,
            parlance.connect(proxy.url, token="ann", reconnect=False) as session,
        ):
            waiting = asyncio.create_task(session.request(metadata={"test": "hang"}))
            await session.request("x", metadata={"test": "echo"})
            proxy.cut()
            with pytest.raises(ParlanceError, match="session_lost"):
                await waiting
            end = await session.closed
            assert end.error is not None
            assert end.error.code == "session_lost"

    run(main())


def test_leaving_while_suspended_ends_in_time(server: Server) -> None:
    async def main() -> None:
        async with Proxy(server.url).serving() as proxy:
            timers = parlance.Timers(closing=0.2)
            async with parlance.connect(proxy.url, token="ann", reconnect=QUICK, timers=timers) as session:
                waiting = asyncio.create_task(session.request(metadata={"test": "hang"}))
                await session.request("x", metadata={"test": "echo"})
                proxy.is_refusing = True
                proxy.cut()
            with pytest.raises(ParlanceError, match="session_closed"):
                await waiting

    run(main())


def test_a_killed_process_is_followed_by_one_that_takes_its_session_up(server: Server, tmp_path: Path) -> None:
    store = str(tmp_path / "session.json")
    first = spawn("worker.py", server.url, store)
    assert first.stdout is not None
    session_id = first.stdout.readline().split()[1]
    for _ in range(20):
        first.stdout.readline()
    second = spawn("worker.py", server.url, store)
    _, refusal = second.communicate()
    assert second.returncode == 1
    assert "is used by another process" in refusal
    first.send_signal(signal.SIGKILL)
    first.wait()
    first.stdout.close()
    third = spawn("worker.py", server.url, store)
    assert third.stdout is not None
    assert third.stdout.readline().split() == ["session", session_id, "True"]
    third.kill()
    third.communicate()


def test_a_session_is_left_to_the_next_object(server: Server) -> None:
    async def main() -> None:
        store = parlance.MemoryStore()
        resets: list[str] = []
        async with server.connect(store=store, on_reset=lambda reset: resets.append(reset.code)) as session:
            first = session.id
            await session.send("one")
            await session.flush()
            await session.detach()
        assert resets == []
        async with server.connect(store=store) as session:
            assert (session.id, session.is_rebuilt) == (first, True)
            await session.send("two")
            assert (await tally(session, 2))["messages"] == 2
        async with server.connect(store=store) as session:
            assert session.id != first

    run(main())


def test_a_store_that_fails_at_the_end_is_given_back(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    async def main() -> None:
        store = parlance.FileStore(tmp_path / "session.json")
        session = await server.connect(store=store)
        with monkeypatch.context() as patch:
            patch.setattr("os.replace", fail)
            await session.close()
            await session.closed
        async with server.connect(store=parlance.FileStore(tmp_path / "session.json")) as session:
            assert (await session.request("x", metadata={"test": "echo"})).text == "x"

    with caplog.at_level(logging.CRITICAL):
        run(main())


@pytest.mark.parametrize("when", ["before an attempt", "in an attempt"])
def test_a_session_is_left_while_it_connects_again(server: Server, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        store, opens, reached, may_go_on = parlance.MemoryStore(), Dialer.open, asyncio.Event(), asyncio.Event()

        async def open_late(self: Dialer, name: str, *, soon: bool = False) -> Any:
            connection = await opens(self, name, soon=soon)
            reached.set()
            await may_go_on.wait()
            return connection

        waits = when == "before an attempt"
        reconnect = parlance.Reconnect(min_delay=36_000, max_delay=36_000) if waits else QUICK
        async with Proxy(server.url).serving() as proxy:
            session = await parlance.connect(proxy.url, token="ann", reconnect=reconnect, store=store)
            first = session.id
            monkeypatch.setattr(Dialer, "open", open_late)
            proxy.cut()
            while session.state != "suspended":
                await asyncio.sleep(0.01)
            if not waits:
                await reached.wait()
            leaving = asyncio.create_task(session.detach())
            await asyncio.sleep(0)
            may_go_on.set()
            await leaving
            async with parlance.connect(proxy.url, token="ann", store=store) as session:
                assert (session.id, session.is_rebuilt) == (first, True)

    run(main())


@pytest.mark.parametrize("way", ["fails", "is cancelled"])
def test_a_session_in_a_store_waits_for_a_process_that_reaches_the_server(server: Server, way: str) -> None:
    async def main() -> None:
        store = parlance.MemoryStore()
        async with Proxy(server.url).serving() as proxy:
            async with parlance.connect(proxy.url, token="ann", store=store) as session:
                first = session.id
                await session.detach()
            proxy.is_refusing = way == "fails"
            session = parlance.connect(proxy.url, token="ann", store=store, reconnect=False)
            opening = asyncio.create_task(session.open())
            if way == "is cancelled":
                # Its HELLO is on the way, and nothing comes back.
                proxy.on_bytes = lambda total: opening.cancel() if total > 0 else None
            with pytest.raises((ParlanceError, asyncio.CancelledError)):
                await opening
            proxy.is_refusing, proxy.on_bytes = False, lambda total: None
            async with parlance.connect(proxy.url, token="ann", store=store) as session:
                assert (session.id, session.is_rebuilt) == (first, True)

    run(main())


def test_a_server_that_dies_and_comes_back_keeps_durable_sessions() -> None:
    server = Server()

    async def main() -> None:
        async with server.connect() as session:
            before = session.id
            wish = {"test": "stream", "parts": 40, "size": 20, "pace": 20, "again": True}
            parts = []
            async for part in session.stream(metadata=wish):
                parts.append(part.text)
                if len(parts) == 10:
                    with pytest.raises(ParlanceError):
                        await session.request(metadata={"test": "restart"})
            assert parts == [f"part {index} ".ljust(20, ".") for index in range(1, 41)]
            assert session.id == before

    try:
        run(main())
    finally:
        server.stop()
