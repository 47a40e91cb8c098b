"""A process that keeps its session in a file, and talks until it is killed."""

from __future__ import annotations

import sys

import parlance


async def main() -> None:
    url, store = sys.argv[1:]
    async with parlance.connect(url, token="worker", store=parlance.FileStore(store)) as session:
        print("session", session.id, session.is_rebuilt, flush=True)
        for index in range(1_000_000):
            await session.send(str(index))
            await session.request("tick", metadata={"test": "echo"})
            print(index, flush=True)


if __name__ == "__main__":
    try:
        parlance.run(main())
    except parlance.ParlanceError as error:
        sys.exit(str(error))
