"""Scripts and agents: what stands around a session."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import TypeVar

from .session import Session
from .setup import SessionEnd

Value = TypeVar("Value")
_INTERRUPTED = 130


def run(main: Coroutine[object, object, Value]) -> Value:
    """Run a script: as `asyncio.run`, but Ctrl-C ends it with the exit code 130 and without a traceback."""
    try:
        return asyncio.run(main)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


async def serve_requests(session: Session) -> SessionEnd:
    """Answer requests by the `on_request` of the session until it is over, and drop one-way messages."""
    async for _ in session:
        pass
    return await session.closed
