"""The conformance kit plays a server for the client. It has begun with the first test, so this file is the last one."""

from __future__ import annotations

import re

from conftest import KitRun


def test_the_kit_finds_nothing_wrong(kit: KitRun) -> None:
    code, output = kit.wait(), kit.output
    counts = re.search(r"^(\d+) passed, (\d+) failed, (\d+) not applicable", output, re.MULTILINE)
    wrong = [line for line in output.splitlines() if line.startswith(("failed", "error"))]
    assert (wrong, code) == ([], 0), output
    assert counts is not None
    assert int(counts[1]) >= 237
