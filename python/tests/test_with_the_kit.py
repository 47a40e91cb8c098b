"""The conformance kit plays a server for the client. It has begun with the first test, so this file is the last one."""

from __future__ import annotations

import re

import pytest

from conftest import KitRun


@pytest.mark.parametrize(("transport", "least"), [("http", 8), ("websocket", 237)])
def test_the_kit_finds_nothing_wrong(kits: dict[str, KitRun], transport: str, least: int) -> None:
    code, output = kits[transport].wait(), kits[transport].output
    counts = re.search(r"^(\d+) passed, (\d+) failed, (\d+) not applicable", output, re.MULTILINE)
    wrong = [line for line in output.splitlines() if line.startswith(("failed", "error"))]
    assert (wrong, code) == ([], 0), output
    assert counts is not None
    assert int(counts[1]) >= least
