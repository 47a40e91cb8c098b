"""`python3 -m faults --fault NAME (--listen PORT | --peer URL)`: the peer with one fault."""

from __future__ import annotations

import runpy
import sys

from .faults import FAULTS


def main() -> None:
    arguments = sys.argv[1:]
    if len(arguments) < 2 or arguments[0] != "--fault" or arguments[1] not in FAULTS:
        sys.exit(f"--fault NAME, one of: {', '.join(FAULTS)}")
    FAULTS[arguments[1]]()
    sys.argv[1:] = arguments[2:]
    runpy.run_module("parlance_peer", run_name="__main__")


main()
