"""The client as a peer under test: answers what `conformance/README.md` lists, in one session after the other."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import zlib
from collections.abc import AsyncIterator
from typing import Any

import numpy as np

import parlance
from parlance import Message, ParlanceError, RequestContext, RequestError, Session

ABILITIES = ["credentials", "who", "pace", "follow", "goaway", "reload"]


class Peer:
    """The messages that the sessions of one process have received, and their answers."""

    def __init__(self, abilities: list[str]) -> None:
        self.abilities = abilities
        self.tallies: dict[str, dict[str, Any]] = {}
        self.reloads = asyncio.Event()

    def tally(self, session: Session) -> dict[str, Any]:
        return self.tallies.setdefault(session.id, {"messages": 0, "crc": 0, "cancelled": 0, "undelivered": []})

    async def count(self, session: Session) -> None:
        async for message in session:
            if message.tensor is not None:
                continue
            if message.sender == "@delivery":
                self.tally(session)["undelivered"].append(message.json())
                continue
            tally = self.tally(session)
            tally["messages"] += 1
            tally["crc"] = zlib.crc32(message.bytes, tally["crc"])

    def answer(self, request: Message, context: RequestContext) -> Any:
        wish = context.metadata
        test = wish.get("test")
        if test == "stream":
            return self.stream(context)
        action = getattr(self, f"on_{test}", None) if isinstance(test, str) else None
        if action is None:
            raise RequestError("unknown_test", f"the test {test!r} is not known")
        return action(request, context)

    async def stream(self, context: RequestContext) -> AsyncIterator[str]:
        wish = context.metadata
        try:
            for index in range(1, int(wish.get("parts", 0)) + 1):
                yield text("part", index, wish)
                if wish.get("pace"):
                    await asyncio.sleep(wish["pace"] / 1_000)
        except asyncio.CancelledError:
            self.tally(context.session)["cancelled"] += 1
            raise

    async def on_echo(self, request: Message, context: RequestContext) -> bytes:
        if "reply" in context.metadata:
            context.set_metadata(context.metadata["reply"])
        return request.bytes

    async def on_say(self, request: Message, context: RequestContext) -> None:
        wish = context.metadata
        for index in range(1, int(wish.get("messages", 0)) + 1):
            body = str(wish.get("text", text("message", index, wish)))
            await context.session.send(body, algorithm=wish.get("codec"), to=wish.get("to"))

    async def on_throw(self, request: Message, context: RequestContext) -> None:
        raise ValueError(str(context.metadata["message"]))

    async def on_fail(self, request: Message, context: RequestContext) -> None:
        wish = context.metadata
        raise RequestError(str(wish["code"]), str(wish["message"]), retryable=wish.get("retryable") is True)

    async def on_hang(self, request: Message, context: RequestContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.tally(context.session)["cancelled"] += 1

    async def on_tally(self, request: Message, context: RequestContext) -> Any:
        await asyncio.sleep(0)
        return self.tally(context.session)

    async def on_abilities(self, request: Message, context: RequestContext) -> list[str]:
        return self.abilities

    async def on_who(self, request: Message, context: RequestContext) -> Any:
        return {"from": request.sender}

    async def on_ask(self, request: Message, context: RequestContext) -> Any:
        wish = context.metadata
        return await asyncio.gather(*(self.ask_one(context.session, wish) for _ in range(int(wish.get("requests", 1)))))

    async def ask_one(self, session: Session, wish: Any) -> Any:
        body = str(wish.get("text", text("question", 1, wish)))
        reply = session.stream(body, algorithm=wish.get("codec"), to=wish.get("to"), metadata={"test": "answer"})
        return await told(reply, wish.get("cancel_after"))

    async def on_follow(self, request: Message, context: RequestContext) -> Any:
        wish = context.metadata
        reply = context.session.follow(str(wish.get("id", wish.get("name"))), after=int(wish.get("after", 0)))
        return await told(reply, wish.get("leave_after"))

    async def on_tensor(self, request: Message, context: RequestContext) -> Any:
        array = np.arange(int(context.metadata["values"]), dtype="<f4")
        try:
            await context.session.send_tensor(array)
        except ParlanceError as error:
            return {"error": error.code}
        return {"error": None}

    async def on_close(self, request: Message, context: RequestContext) -> None:
        wish = context.metadata
        self.closing = asyncio.create_task(context.session.close(str(wish["code"]), str(wish["message"])))
        await asyncio.Event().wait()

    async def on_reload(self, request: Message, context: RequestContext) -> None:
        self.closing = asyncio.create_task(context.session.detach())
        await asyncio.Event().wait()


def text(what: str, index: int, wish: Any) -> str:
    return f"{what} {index} ".ljust(int(wish.get("size", 0)), ".")


async def told(reply: parlance.Reply, most: int | None) -> Any:
    parts: list[str] = []
    try:
        async with reply:
            async for part in reply:
                parts.append(part.text)
                if len(parts) == most:
                    break
    except ParlanceError as error:
        return {"parts": parts, "error": {"code": error.code, "message": error.message}}
    return {"parts": parts, "error": None}


async def visit(url: str, transport: str) -> None:
    """Begin one session after the other."""
    peer = Peer([*ABILITIES, "http"] if transport == "http" else ABILITIES)
    store = parlance.MemoryStore()
    while True:
        with contextlib.suppress(ParlanceError):
            async with parlance.connect(
                url,
                token=lambda: "subject",
                agent_id="subject",
                store=store,
                transports=(transport,),
                on_request=peer.answer,
                reconnect=parlance.Reconnect(min_delay=0.001, max_delay=0.02, connect_within=3_600),
            ) as session:
                await peer.count(session)
        await asyncio.sleep(0.02)


if __name__ == "__main__":
    parlance.run(visit(*sys.argv[1:]))
