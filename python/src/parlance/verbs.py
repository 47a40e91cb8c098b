"""Kept replies and agents: requests to names of the server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from typing import Any

from .agents import Agents, read_agents
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

    def follow(self, reply: str, *, after: int = 0) -> Reply:
        """Follow a reply that the server keeps.

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
