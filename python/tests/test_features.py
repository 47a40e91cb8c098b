"""Kept replies, agents and tensors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

import parlance
from conftest import QUICK, Proxy, Server, run
from parlance import Message, ParlanceError, RequestContext, RequestError, Tensor


def part(index: int, size: int = 30) -> str:
    return f"part {index} ".ljust(size, ".")


def test_a_kept_reply_is_followed_by_another_session(plain_server: Server) -> None:
    async def main() -> None:
        wish = {"test": "stream", "parts": 60, "size": 30, "pace": 5, "keep": "chat-42"}
        async with plain_server.connect(token="keeper") as first, plain_server.connect(token="keeper") as second:
            reply = first.stream(metadata=wish)
            parts = []
            async for message in reply:
                parts.append(message.text)
                if len(parts) == 7:
                    assert reply.kept_id is not None
                    assert reply.position == 7
                    break_after = asyncio.create_task(follow(second, reply.kept_id, 3))
            assert parts == [part(index) for index in range(1, 61)]
            assert await break_after == [part(index) for index in range(4, 61)]
            by_name = second.follow("chat-42", after=58)
            assert [message.text async for message in by_name] == [part(59), part(60)]
            assert by_name.position == 60
            (listed,) = await second.replies()
            assert (listed["name"], listed["state"], listed["parts"]) == ("chat-42", "complete", 60)
            with pytest.raises(ParlanceError, match="unknown_reply"):
                await follow(second, "chat-43", 0)
        async with plain_server.connect(token="stranger") as stranger:
            with pytest.raises(ParlanceError, match="unknown_reply"):
                await follow(stranger, listed["id"], 0)

    run(main())


async def follow(session: parlance.Session, name: str, after: int) -> list[str]:
    return [message.text async for message in session.follow(name, after=after)]


def test_a_kept_reply_is_stopped_by_its_owner(plain_server: Server) -> None:
    async def main() -> None:
        wish = {"test": "stream", "parts": 1_000_000, "size": 30, "pace": 5, "keep": "endless"}
        async with plain_server.connect(token="owner") as session:
            reply = session.stream(metadata=wish)

            async def read() -> None:
                async for _ in reply:
                    pass

            reading = asyncio.create_task(read())
            followed = session.follow("endless")
            with pytest.raises(ParlanceError, match="unknown_reply"):
                await followed.stop()
            async with followed:
                async for _ in followed:
                    await followed.stop()
                    break
            with pytest.raises(ParlanceError, match="cancelled"):
                await reading

    run(main())


class Worker:
    """An agent that answers in every way."""

    def __init__(self) -> None:
        self.cancelled = 0

    async def count(self, most: int) -> AsyncIterator[int]:
        try:
            for number in range(most):
                yield number
                await asyncio.sleep(0)
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled += 1
            raise

    def answer(self, request: Message, context: RequestContext) -> Any:
        value = request.json()
        context.set_metadata({"for": request.sender})
        if value is None:
            raise RequestError("nothing", "there is nothing", data={"why": [1]})
        return self.count(value)


def test_two_agents_talk_through_cuts(plain_server: Server) -> None:
    async def main() -> None:
        worker = Worker()
        async with (
            Proxy(plain_server.url).serving() as proxy,
            parlance.connect(
                proxy.url,
                token="team",
                agent_id="worker",
                agent={"skill": "sums"},
                on_request=worker.answer,
                reconnect=QUICK,
            ) as callee,
            parlance.connect(proxy.url, token="team", agent_id="boss", reconnect=QUICK) as boss,
        ):
            (seen,) = (await boss.agents()).present
            assert (seen.id, seen.state, seen.metadata) == ("worker", "connected", {"skill": "sums"})
            for index in range(40):
                await boss.send(f"note {index}", to="worker", metadata={"n": index})
            for most in (0, 1, 50, 300):
                reply = boss.stream(most, to="worker")
                numbers = []
                async for message in reply:
                    numbers.append(message.json())
                    if len(numbers) in (10, 100):
                        proxy.cut()
                assert numbers == list(range(most))
                assert reply.metadata == {"for": "boss"}
            with pytest.raises(RequestError) as caught:
                await boss.request(None, to="worker")
            assert (caught.value.code, caught.value.data) == ("nothing", {"why": [1]})
            async with boss.stream(10**9, to="worker") as endless:
                async for _ in endless:
                    break
            with pytest.raises(ParlanceError, match="unknown_agent"):
                await boss.request("?", to="nobody")
            with pytest.raises(ParlanceError, match="invalid_argument"):
                await boss.request("?", to="no body")
            notes = aiter(callee)
            for index in range(40):
                note = await anext(notes)
                assert (note.text, note.sender, note.metadata) == (f"note {index}", "boss", {"n": index})
            while worker.cancelled < 1:
                await asyncio.sleep(0.01)

    run(main())


def test_agents_are_watched(plain_server: Server) -> None:
    async def main() -> None:
        async with plain_server.connect(token="watchers", agent_id="one") as one:
            seen = one.watch_agents()
            assert (await anext(seen)).present == []
            async with plain_server.connect(token="watchers", agent_id="two"):
                assert [agent.id for agent in (await anext(seen)).present] == ["two"]
            assert (await anext(seen)).present == []
            await seen.aclose()  # type: ignore[attr-defined]

    run(main())


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_tensors_between_agents(plain_server: Server, dtype: str) -> None:
    async def main() -> None:
        async with (
            plain_server.connect(token="tensors", agent_id="sender") as sender,
            plain_server.connect(token="tensors", agent_id="receiver") as receiver,
        ):
            arrays = [
                (np.arange(size) % 100).astype(dtype).reshape(shape)
                for size, shape in ((6, (2, 3)), (0, (0,)), (700_000, (700, 1_000)))
            ]
            for array in arrays:
                await sender.send_tensor(array, to="receiver", metadata={"extra": {"layer": "7"}})
            messages = aiter(receiver)
            for array in arrays:
                message = await anext(messages)
                assert message.sender == "sender"
                assert message.tensor is not None
                assert message.tensor.metadata.extra == {"layer": "7"}
                assert np.array_equal(message.tensor.numpy(), array)

    run(main())


def test_tensors_to_and_from_the_server(plain_server: Server) -> None:
    async def main() -> None:
        async with plain_server.connect() as session:
            told = await session.request(metadata={"test": "tensor", "values": 100_000})
            assert told.json() == {"error": None}
            message = await anext(aiter(session))
            assert message.tensor is not None
            assert np.array_equal(message.tensor.numpy(), np.arange(100_000, dtype="<f4"))
            await session.send_tensor(message.tensor)
            with pytest.raises(ParlanceError, match="bad_tensor"):
                await session.send_tensor(Tensor(b"123", (1,), "float32", message.tensor.metadata))
            with pytest.raises(ParlanceError, match="bad_tensor"):
                await session.send_tensor([1, 2, 3])

    run(main())
