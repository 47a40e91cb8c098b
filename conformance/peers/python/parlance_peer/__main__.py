"""`python3 -m parlance_peer --listen PORT` serves; `--peer URL` visits. It runs until it is stopped."""

from __future__ import annotations

import argparse
import asyncio

from .client import Client
from .server import listen


def main() -> None:
    parser = argparse.ArgumentParser(prog="parlance_peer", description=__doc__)
    role = parser.add_mutually_exclusive_group(required=True)
    role.add_argument("--listen", type=int, metavar="PORT", help="the port of a server; 0 takes any")
    role.add_argument("--peer", metavar="URL", help="the server of a client")
    options = parser.parse_args()
    try:
        if options.peer is None:
            asyncio.run(listen(options.listen, lambda url: print(url, flush=True)))
        else:
            asyncio.run(Client(options.peer).visit())
    except KeyboardInterrupt:
        pass


main()
