"""`python -m parlance connect URL`: each line of the input is a request, and its reply is printed part by part."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from .client import connect
from .core.errors import ParlanceError
from .options import Reconnect
from .running import run


async def talk(url: str, token: str | None, within: float) -> None:
    """Ask what stands on the standard input."""
    async with connect(url, token=token, reconnect=Reconnect(connect_within=within)) as session:
        while line := await asyncio.to_thread(sys.stdin.readline):
            async for part in session.stream(line.rstrip("\n")):
                print(part.text, end="", flush=True)
            print()


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m parlance", description="A client for Parlance.")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("connect", help="ask a server what stands on the standard input, line by line")
    command.add_argument("url", help="such as ws://127.0.0.1:8765/session")
    command.add_argument("--token", default=os.environ.get("PARLANCE_TOKEN"), help="default: $PARLANCE_TOKEN")
    command.add_argument("--within", type=float, default=10.0, help="seconds for the first connection (10)")
    given = parser.parse_args()
    try:
        run(talk(given.url, given.token, given.within))
    except ParlanceError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
