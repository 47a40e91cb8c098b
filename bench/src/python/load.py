"""A client in Python: `load.py plain URL` or `load.py session URL`; reads work from stdin, as JSON, and prints what it cost."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import websockets

import parlance


class Plain:
    """Requests as an application would add them to `websockets`: four bytes before each, and no errors and limits."""

    async def open(self, url: str) -> None:
        self._socket = await websockets.connect(url, compression=None, ping_interval=None)
        self._answers: dict[bytes, asyncio.Future[bytes]] = {}
        self._streams: dict[bytes, asyncio.Queue[bytes]] = {}
        self._last = 0
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        answers, streams = self._answers, self._streams
        async for data in self._socket:
            key = data[:4]
            if key in streams:
                streams[key].put_nowait(data)
            else:
                answers.pop(key).set_result(data)

    def _next(self) -> bytes:
        self._last += 1
        return self._last.to_bytes(4, "big")

    async def request(self, question: Any) -> Any:
        key = self._next()
        future = self._answers[key] = asyncio.get_running_loop().create_future()
        await self._socket.send(key + json.dumps(question).encode())
        return json.loads((await future)[5:])

    async def stream(self, question: Any) -> AsyncIterator[Any]:
        key = self._next()
        queue = self._streams[key] = asyncio.Queue()
        await self._socket.send(key + json.dumps(question).encode())
        while (data := await queue.get())[4] == 0:
            yield json.loads(data[5:])
        del self._streams[key]

    async def close(self) -> None:
        await self._socket.close()
        await self._reading


class Session:
    """The package."""

    async def open(self, url: str) -> None:
        self._session = await parlance.connect(url)

    async def request(self, question: Any) -> Any:
        return (await self._session.request(question)).json()

    async def stream(self, question: Any) -> AsyncIterator[Any]:
        async for part in self._session.stream(question):
            yield part.json()

    async def close(self) -> None:
        await self._session.close()


async def run(way: Plain | Session, work: dict[str, Any]) -> None:
    async def ask(count: int) -> None:
        question = work["question"]
        for _ in range(count):
            if (await way.request(question))["role"] != "user":
                raise ValueError(question)

    async def read(count: int) -> None:
        total = 0
        while total < count:
            async for chunk in way.stream({"chunks": work["chunks"]}):
                total += chunk["index"]

    many, one = (work["depth"], ask) if work["name"] == "requests" else (work["streams"], read)
    async with asyncio.TaskGroup() as group:
        for _ in range(many):
            group.create_task(one(work["count"] // many))


async def main(name: str, url: str) -> None:
    way = Plain() if name == "plain" else Session()
    await way.open(url)
    while line := await asyncio.to_thread(sys.stdin.readline):
        start, cpu = time.perf_counter(), time.process_time()
        await run(way, json.loads(line))
        cost = {"seconds": time.perf_counter() - start, "cpuUs": (time.process_time() - cpu) * 1e6}
        print(json.dumps(cost), flush=True)
    await way.close()


asyncio.run(main(*sys.argv[1:]))
