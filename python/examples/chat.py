"""A chat in a terminal: python chat.py ws://127.0.0.1:8765/session. Ctrl-C ends it; a lost connection does not."""

import asyncio
import sys

import parlance


async def main() -> None:
    url = sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:8765/session"
    async with parlance.connect(url) as session:
        while question := (await asyncio.to_thread(sys.stdin.readline)).strip():
            async for part in session.stream(question):
                print(part.text, end="", flush=True)
            print()


parlance.run(main())
