"""Kept replies, agents, events and HTTP: what stands on requests."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from typing import Any

from .agents import Agents, read_agents
from .core.agreement import Agreement
from .core.errors import ParlanceError
from .events import (
    EventHandler,
    event_body,
    event_metadata,
    events_of,
    failure_of,
    is_acknowledged,
    may_come_again,
    unhandled,
)
from .http.fetch import HttpResponse, fetch
from .messages import Message
from .reply import Reply


class Verbs(ABC):
    """The methods of `Session` that stand on `request` and `stream`."""

    @abstractmethod
    async def request(
        self, body: object = b"", *, to: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> Message:
        """Send a request and return the whole reply."""

    @abstractmethod
    def stream(self, body: object = b"", *, to: str | None = None, metadata: Mapping[str, Any] | None = None) -> Reply:
        """Send a request and return its reply part by part."""

    @property
    @abstractmethod
    def agreement(self) -> Agreement:
        """What the two ends have agreed on."""

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: str | bytes | AsyncIterable[bytes] = b"",
        size: int | None = None,
    ) -> HttpResponse:
        """Send an HTTP request, which the gateway or `onFetch` of the server answers, and return its head and body.

        Parameters
        ----------
        url : str
            Only its path and query are sent: `/v1/models`, or `http://session/v1/models`.
        method : str, default 'GET'
        headers : mapping, optional
            Credentials, cookies and what is about a connection are not sent. With `x-parlance-follow`, the ID or name
            of a kept reply, that reply is followed from part `x-parlance-after` on, and nothing is asked.
        body : str, bytes or async iterable of bytes, optional
            The server asks for the pieces of an iterable, and of bytes that are larger than a message.
        size : int, optional
            Bytes of an iterable, if they are known: a server can refuse too many of them before they are sent.

        Returns
        -------
        HttpResponse
            Status, headers, and a body that is read as it arrives.

        Raises
        ------
        ParlanceError
            `unsupported` for another scheme or method, or if the server answers no HTTP; `invalid_argument`; errors of
            `stream`; and what the body raises.
        """
        return await fetch(self, url, method=method, headers=headers, body=body, size=size)

    async def emit(
        self, name: str, data: object = None, *, to: str | None = None, timeout: float | None = None
    ) -> None:
        """Emit an event, and return when the handlers of the other end have returned.

        In a durable session it is handled once, also if the server dies meanwhile.

        Parameters
        ----------
        name : str
        data : object, optional
            Anything that `json.dumps` takes.
        to : str, optional
            Another agent; the server itself if it is left out.
        timeout : float, optional
            Seconds; without it, this waits for as long as the session lasts.

        Raises
        ------
        RequestError
            The error of the handler; `unhandled` if the other end has none, or knows no events.
        ParlanceError
            `session_lost` if the session was lost before it is known whether the event was handled; `timeout`; errors
            of `request`.
        """
        agreement = self.agreement
        metadata = event_metadata(name, agreement)
        if to is not None and not agreement.has("agents"):
            raise ParlanceError("unsupported", "to: the two ends have not agreed on agents")
        body = event_body(data)
        try:
            async with asyncio.timeout(timeout):
                while True:
                    try:
                        answer = await self.request(body, to=to, metadata=metadata)
                        break
                    except ParlanceError as error:
                        if to is not None or not may_come_again(error, metadata):
                            raise failure_of(name, error) from error
        except TimeoutError:
            raise ParlanceError("timeout", f"no acknowledgement within {timeout} s") from None
        if not is_acknowledged(name, answer):
            raise unhandled(name)

    def handle(self, name: str, handler: EventHandler) -> Callable[[], None]:
        """Handle an event of the other end, beside other handlers of it.

        Parameters
        ----------
        handler : callable
            Called with the data and the message, `async` or not. The other end is told when it has returned, or its
            `RequestError`. An event that comes when there is no handler is refused with `unhandled`.

        Returns
        -------
        callable
            Removes the handler.

        Raises
        ------
        ParlanceError
            `invalid_argument`.
        """
        return events_of(self).add(name, handler)

    def follow(self, reply: str, *, after: int = 0) -> Reply:
        """Follow a reply that the server keeps. Leaving it does not stop its handler; `stop_reply` does.

        Parameters
        ----------
        reply : str
            Its ID, or its name among those of one's own.
        after : int, default 0
            The number of the part before the first one that is wanted.
        """
        return self.stream(to="@replies", metadata={"follow": {**_named(reply), "after": after}})

    async def replies(self) -> list[dict[str, Any]]:
        """Return the replies that may be followed, newest first."""
        found: list[dict[str, Any]] = []
        async for part in self.stream(to="@replies", metadata={"list": {}}):
            found += part.json()
        return found

    async def stop_reply(self, reply: str) -> None:
        """Stop the handler of a kept reply, by its ID or name."""
        await self.request(to="@replies", metadata={"stop": _named(reply)})

    async def agents(self) -> Agents:
        """Return the agents that are there, without this one.

        Raises
        ------
        ParlanceError
            `unsupported` if this session is no agent.
        """
        agents = Agents()
        async for part in self.stream({"watch": False}, to="@directory"):
            read_agents(agents, part.json())
        return agents

    async def watch_agents(self) -> AsyncIterator[Agents]:
        """Yield the agents that are there, again after each change."""
        agents = Agents()
        async for part in self.stream({"watch": True}, to="@directory"):
            if read_agents(agents, part.json()):
                yield agents


def _named(reply: str) -> dict[str, str]:
    return {"id" if reply.startswith("reply_") else "name": reply}
