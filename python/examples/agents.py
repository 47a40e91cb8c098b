"""Two agents: one asks, the other one answers in parts. python agents.py ws://127.0.0.1:8765/session."""

import sys
from collections.abc import AsyncIterator

import parlance
from parlance import Message, RequestContext


async def primes(request: Message, context: RequestContext) -> AsyncIterator[int]:
    """Yield primes below the number that was asked for."""
    for number in range(2, request.json()):
        if all(number % divisor for divisor in range(2, number)):
            yield number


async def main() -> None:
    url = sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:8765/session"
    async with (
        parlance.connect(url, token="team", agent_id="mathematician", on_request=primes),
        parlance.connect(url, token="team", agent_id="student") as student,
    ):
        print([agent.id for agent in (await student.agents()).present])
        print([part.json() async for part in student.stream(20, to="mathematician")])


parlance.run(main())
