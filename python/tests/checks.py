"""Format, style and types, for `npm run check`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
COMMANDS = (["ruff", "format", "--check", "."], ["ruff", "check", "."], ["mypy"])


def main() -> int:
    failed = 0
    for command in COMMANDS:
        failed += subprocess.run([sys.executable, "-m", *command], cwd=PROJECT, check=False).returncode != 0
    print(f"python: {len(COMMANDS) - failed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
