"""Sessions that another process steers: it writes commands to stdin, as lines of JSON, and reads what happens."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator
from typing import Any

import parlance
from parlance import Message, ParlanceError, Reply, RequestContext, Session

RECONNECT = parlance.Reconnect(min_delay=0.005, max_delay=0.3, connect_within=5.0)
TIMERS = parlance.Timers(accept=4.0, ping_interval=10.0, pong=5.0)
#: Seconds between two looks at the ID and the state of a session.
LOOK = 0.005


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


class Page:
    """One session, under the key that its commands have."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.session: Session
        self.seen: tuple[str, str] | None = None
        self.tasks: list[asyncio.Task[None]] = []

    def tell(self, event: str, **fields: Any) -> None:
        self.look()
        say(page=self.key, event=event, **fields)

    def look(self) -> None:
        state = self.session.state
        now = "" if state == "connecting" else self.session.id, state
        if now != self.seen:
            self.seen = now
            say(page=self.key, event="state", session=now[0], state=now[1])

    async def open(self, given: dict[str, Any], store: parlance.MemoryStore | None) -> None:
        self.session = parlance.connect(
            given["url"],
            token=given["token"],
            agent_id=given.get("agent"),
            store=store,
            on_request=self.answer,
            on_reset=lambda reset: self.tell("reset", code=reset.code, reason=reset.code),
            reconnect=RECONNECT,
            timers=TIMERS,
            transports=(given["transport"],),
        )
        await self.session.open()
        self.look()
        self.tasks = [asyncio.create_task(self.watch()), asyncio.create_task(self.read())]

    async def watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(LOOK)

    async def read(self) -> None:
        try:
            async for message in self.session:
                if message.sender == "@delivery":
                    self.tell("undelivered", report=message.json())
                else:
                    marked = message.is_redelivered
                    self.tell("message", text=message.text, sender=message.sender, redelivered=marked)
        except ParlanceError:
            pass
        end = await self.session.closed
        self.tasks[0].cancel()
        self.tell("closed", error=end.error and end.error.code, message=end.error and end.error.message)

    async def answer(self, request: Message, context: RequestContext) -> AsyncIterator[str]:
        question = request.json()
        for part in range(question["parts"]):
            yield f"{question['id']}:{part}:1 "
            await asyncio.sleep(random.random() * 2 * question["paceMs"] / 1_000)


class Peer:
    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.stores: dict[str, parlance.MemoryStore] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}

    def obey(self, command: dict[str, Any]) -> None:
        number = command["id"]
        if command["do"] == "leave":
            if (task := self.tasks.get(command["of"])) is not None:
                task.cancel()
            return
        task = self.tasks[number] = asyncio.create_task(self.run(number, command))
        task.add_done_callback(lambda _: self.tasks.pop(number))

    async def run(self, number: int, command: dict[str, Any]) -> None:
        try:
            say(id=number, result=await getattr(self, f"on_{command['do']}")(number, **command["given"]))
        except ParlanceError as error:
            say(id=number, error=error.code, message=error.message, retryable=error.retryable)

    async def on_connect(self, number: int, page: str, store: str | None = None, **given: Any) -> None:
        kept = None if store is None else self.stores.setdefault(store, parlance.MemoryStore())
        self.pages[page] = Page(page)
        await self.pages[page].open(given, kept)

    async def on_send(self, number: int, page: str, text: str, to: str | None = None) -> None:
        await self.pages[page].session.send(text, to=to)

    async def on_stream(self, number: int, page: str, body: Any, to: str | None = None) -> None:
        await self.parts(number, self.pages[page].session.stream(body, to=to))

    async def on_follow(self, number: int, page: str, reply: str, after: int) -> None:
        await self.parts(number, self.pages[page].session.follow(reply, after=after))

    async def parts(self, number: int, reply: Reply) -> None:
        async with reply:
            async for part in reply:
                say(id=number, part=part.text, kept=reply.kept_id, position=reply.position)

    async def on_agents(self, number: int, page: str) -> list[str]:
        return [agent.id for agent in (await self.pages[page].session.agents()).present]

    async def on_flush(self, number: int, page: str) -> None:
        await self.pages[page].session.flush()

    async def on_close(self, number: int, page: str) -> None:
        await self.pages[page].session.close()

    async def on_detach(self, number: int, page: str) -> None:
        await self.pages[page].session.detach()


async def main() -> None:
    peer, reader = Peer(), asyncio.StreamReader(limit=2**24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        peer.obey(json.loads(line))


asyncio.run(main())
