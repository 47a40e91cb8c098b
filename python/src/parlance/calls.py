"""Calls of the application: what they ask for, and where they wait while there is no session."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .codecs.coder import Content, content_of
from .core.agreement import Agreement
from .core.errors import ParlanceError
from .core.maps import pack_metadata
from .core.outbox import Body
from .core.rules import is_name
from .handlers import Tokens

#: The bytes of calls that may wait while there is no session.
_MAX_WAITING: Final = 4 * 1024 * 1024

Fail = Callable[[ParlanceError], None]


@dataclass(slots=True)
class CallOptions:
    """Options of `send`, `request` and `stream`."""

    to: str | None = None
    metadata: Mapping[str, Any] | None = None
    compress_alone: bool = False
    algorithm: str | None = None
    retry_unsent: bool = False

    def apply(self, body: Body, agreement: Agreement) -> Body:
        """Address a body, and give it its metadata.

        Raises
        ------
        ParlanceError
            `invalid_argument`, `unsupported`, `metadata_too_large`.
        """
        if self.to is not None:
            if not is_name(self.to):
                raise ParlanceError("invalid_argument", f"to: expected an agent ID or an address, not {self.to!r}")
            needed = "replies" if self.to == "@replies" else "agents"
            if not agreement.has(needed) and not agreement.has("agents"):
                raise ParlanceError("unsupported", f"to: the two ends have not agreed on {needed}")
        body.to, body.retry = self.to, self.retry_unsent
        if self.metadata:
            body.metadata = pack_metadata(self.metadata, agreement.max_metadata_size)
        return body


class WaitingCalls:
    """Calls that wait for a session, in their order: what each does then, and what if there never is one."""

    def __init__(self) -> None:
        self._calls: deque[tuple[Callable[[], None], Fail]] = deque()
        self.size = 0

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, write: Callable[[], None], fail: Fail, size: int) -> None:
        """Let a call wait; it fails with `over_budget` if too much waits."""
        if self.size + size > _MAX_WAITING:
            fail(ParlanceError("over_budget", "more than 4 MiB wait for a session"))
            return
        self._calls.append((write, fail))
        self.size += size

    def take(self) -> deque[tuple[Callable[[], None], Fail]]:
        """Return all of them, which wait no more."""
        calls, self._calls, self.size = self._calls, deque(), 0
        return calls


def frozen(body: object) -> Tokens | Content:
    """Return a body that its caller cannot change any more.

    Raises
    ------
    ParlanceError
        `invalid_argument`, `lone_surrogate`.
    """
    return body if isinstance(body, Tokens) else content_of(body)
