"""Events by name, with an acknowledgement."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

import pytest

import parlance
from conftest import QUICK, Apis, Proxy, Server, run
from parlance import Message, ParlanceError, RequestError


def test_events_both_ways_through_cuts(plain_server: Server) -> None:
    async def main() -> None:
        async with (
            Proxy(plain_server.url).serving() as proxy,
            parlance.connect(proxy.url, token="ann", reconnect=QUICK) as session,
        ):
            await session.emit("saved", {"id": 7})
            with pytest.raises(RequestError) as refused:
                await session.emit("refused")
            assert (refused.value.code, refused.value.data) == ("full", {"free": 0})
            with pytest.raises(RequestError, match="unhandled"):
                await session.emit("forgotten", 1)

            got: list[Any] = []

            async def handle(data: Any, message: Message) -> None:
                await asyncio.sleep(0)
                got.append((data, message.sender))

            remove = session.handle("echo", handle)
            for index in range(20):
                proxy.cut()
                await session.emit("echo", ["ä", index])
            await session.emit("echo", "a text")
            assert got == [*((["ä", index], None) for index in range(20)), ("a text", None)]

            def fail(data: Any, message: Message) -> None:
                raise RequestError("no_room", "there is no room", data=data)

            stop_failing = session.handle("echo", fail)
            with pytest.raises(RequestError) as caught:
                await session.emit("echo", [1])
            assert (caught.value.code, caught.value.data) == ("no_room", [1])
            stop_failing()
            remove()
            remove()
            with pytest.raises(RequestError, match="unhandled"):
                await session.emit("echo", 1)
            for name in ("", "a" * 65, "a b"):
                with pytest.raises(ParlanceError, match="invalid_argument"):
                    await session.emit(name)
                with pytest.raises(ParlanceError, match="invalid_argument"):
                    session.handle(name, handle)
            await session.emit("saved", {"name": "a" * 64})
            with pytest.raises(ParlanceError, match="invalid_argument"):
                await session.emit("saved", {1, 2})

            session.handle("echo", lambda data, message: asyncio.sleep(3_600))
            with pytest.raises(ParlanceError, match="timeout"):
                await session.emit("echo", 1, timeout=0.05)
            while session.stats()["open_streams"]:
                await asyncio.sleep(0.01)

    run(main())


def test_an_end_that_knows_no_events(apis: Apis, plain_server: Server) -> None:
    async def main() -> None:
        async with parlance.connect(apis.urls["control"]) as session:
            with pytest.raises(RequestError, match="unhandled"):
                await session.emit("saved", 1)
        async with (
            plain_server.connect(token="team", agent_id="one") as one,
            plain_server.connect(token="team", agent_id="two") as two,
        ):
            with pytest.raises(RequestError, match="unhandled"):
                await one.emit("hello", to="two")
            heard: list[Any] = []
            two.handle("hello", lambda data, message: heard.append((data, message.sender)))
            await one.emit("hello", {"a": 1}, to="two")
            assert heard == [({"a": 1}, "one")]

    run(main())


def test_a_lost_session_tells_who_waits(plain_server: Server) -> None:
    async def main() -> None:
        async with (
            Proxy(plain_server.url).serving() as proxy,
            parlance.connect(proxy.url, token="ann", reconnect=False) as session,
        ):
            session.handle("echo", lambda data, message: asyncio.sleep(3_600))
            emitting = asyncio.create_task(session.emit("echo", 1))
            while not session.stats()["open_streams"] > 1:
                await asyncio.sleep(0.01)
            proxy.cut()
            with pytest.raises(ParlanceError, match="session_lost"):
                await emitting

    run(main())


def test_events_of_a_durable_session_are_handled_once_while_its_servers_are_killed(
    events_server: subprocess.Popen[str],
) -> None:
    server = events_server
    assert server.stdout is not None
    url = server.stdout.readline().strip()

    def tell(line: str) -> None:
        assert server.stdin is not None
        assert server.stdout is not None
        print(line, file=server.stdin, flush=True)
        assert server.stdout.readline() == "done\n"

    async def main() -> None:
        async with parlance.connect(url, token="ann", reconnect=QUICK) as session:
            before, heard, emitted = session.id, [], []
            session.handle("counted", lambda number, message: heard.append(number))
            # At the second kill, the record is of a process that had taken the session up.
            for kill in range(2):
                # A reply comes when all before it is recorded, at a process that has the session.
                await session.request()
                await asyncio.to_thread(tell, "10")
                assert (await session.request()).json()["told"] == kill * 10 + 10
                for number in range(kill * 10 + 1, kill * 10 + 11):
                    emitted.append(asyncio.create_task(session.emit("counted", number)))
                    emitted.append(asyncio.create_task(session.emit("saved", {"id": number})))
                    # Some are written before the kill, and some while it happens.
                    await asyncio.sleep(0)
                await asyncio.to_thread(tell, "kill")
            await asyncio.gather(*emitted)
            totals = (await session.request()).json()
            assert sorted(totals["counted"]) == sorted(totals["saved"]) == list(range(1, 21))
            while len(heard) < totals["told"]:
                await asyncio.sleep(0.01)
            assert (sorted(heard), totals["told"]) == (list(range(1, 21)), 20)
            assert session.id == before

    run(main())


def test_a_handler_of_an_event_may_close_its_session(plain_server: Server) -> None:
    async def main() -> None:
        async with plain_server.connect() as session:
            session.handle("echo", lambda data, message: session.close(data))
            with pytest.raises(ParlanceError, match="session_closed"):
                await session.emit("echo", "enough")
            assert (await session.closed).code == "enough"

    run(main())
