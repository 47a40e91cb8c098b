"""Reads an endless reply until it is interrupted."""

import sys

import parlance


async def main() -> None:
    async with parlance.connect(sys.argv[1]) as session:
        wish = {"test": "stream", "parts": 1_000_000, "size": 20, "pace": 5}
        async for part in session.stream(metadata=wish):
            print(part.text, flush=True)


parlance.run(main())
