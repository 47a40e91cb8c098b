"""`python3 -m faults (--fault NAME | --variant NAME,…) (--listen PORT | --peer URL)`: the peer with a fault, or other than usual."""

from __future__ import annotations

import runpy
import sys

from .faults import FAULTS
from .variants import VARIANTS

KINDS = {"--fault": FAULTS, "--variant": VARIANTS}


def main() -> None:
    kind, names, *rest = sys.argv[1:] if len(sys.argv) > 2 else ["", ""]
    known = KINDS.get(kind, {})
    if any(name not in known for name in names.split(",")):
        sys.exit("\n".join(f"{each} NAME, of: {', '.join(table)}" for each, table in KINDS.items()))
    for name in names.split(","):
        known[name]()
    sys.argv[1:] = rest
    runpy.run_module("parlance_peer", run_name="__main__")


main()
