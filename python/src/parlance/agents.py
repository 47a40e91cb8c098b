"""Other clients of the same server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .core.errors import ParlanceError


@dataclass(frozen=True, slots=True)
class Agent:
    """A client that has made itself known.

    Attributes
    ----------
    id : str
        Its name for `to=`: its ID if it belongs to the same principal, else an address that begins with `~`.
    state : str
        `connected` or `suspended`.
    metadata : dict
        Its description of itself.
    algorithms, encodings : tuple of str
    """

    id: str
    state: str = "connected"
    metadata: dict[str, Any] = field(default_factory=dict)
    algorithms: tuple[str, ...] = ()
    encodings: tuple[str, ...] = ()


@dataclass(slots=True)
class Agents:
    """The agents that are there, by their names."""

    by_id: dict[str, Agent] = field(default_factory=dict)

    @property
    def present(self) -> list[Agent]:
        """The agents, in the order in which they came."""
        return list(self.by_id.values())


def read_agents(agents: Agents, value: Any) -> bool:
    """Apply a report of the directory, and return whether the list is complete with it.

    Raises
    ------
    ParlanceError
        `bad_message`.
    """
    try:
        for entry in value["present"]:
            agents.by_id[entry["address"]] = Agent(
                entry["id"],
                entry.get("state", "connected"),
                entry.get("metadata") or {},
                tuple(entry.get("algorithms", ())),
                tuple(entry.get("encodings", ())),
            )
        for address in value["gone"]:
            agents.by_id.pop(address, None)
        return value.get("complete", True) is True
    except (KeyError, TypeError, AttributeError):
        raise ParlanceError("bad_message", "a report of the directory that is malformed") from None
