"""M2M frames between this package and the reference, the crate `m2m-protocol` 0.4.0, which `npm run nightly` builds."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlance.codecs import m2m

PROGRAM = os.environ.get("M2M_REFERENCE", "")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="M2M_REFERENCE names no program of conformance/reference/m2m")
PREFIX = b"#M2M|1|"
TEXTS = st.text(st.characters(codec="utf-8"), max_size=60)


class Reference:
    def __init__(self) -> None:
        self.process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, what: str, data: bytes) -> bytes:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(what, data.hex(), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        assert not answer.startswith("error"), (answer, data)
        return bytes.fromhex(answer)


@pytest.fixture(scope="module")
def reference() -> Iterator[Reference]:
    reference = Reference()
    yield reference
    reference.process.kill()
    reference.process.communicate()


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, bytes]:
    message = st.fixed_dictionaries({"role": st.sampled_from(("system", "user", "assistant")), "content": TEXTS})
    model = draw(st.sampled_from(("gpt-4o", "claude-3-opus", "ä" * 9)))
    options: dict[str, Any]
    if draw(st.booleans()):
        options = {"temperature": st.floats(0, 2), "max_tokens": st.integers(1, 10_000), "stream": st.booleans()}
        chosen = draw(st.fixed_dictionaries({}, optional=options))
        value = {"model": model, "messages": draw(st.lists(message, max_size=6)), **chosen}
        return "request", json.dumps(value, ensure_ascii=False).encode()
    usage = {name: draw(st.integers(0, 10_000)) for name in ("prompt_tokens", "completion_tokens")}
    choice = {"index": 0, "message": draw(message), "finish_reason": draw(st.sampled_from(("stop", "length")))}
    value = {"id": draw(TEXTS), "model": model, "choices": [choice], "usage": usage}
    return "response", json.dumps(value, ensure_ascii=False).encode()


@given(documents())
def test_this_package_reads_frames_of_the_reference(reference: Reference, document: tuple[str, bytes]) -> None:
    what, content = document
    frame = reference(what, content)
    assert frame.startswith(PREFIX)
    assert m2m.decode(frame[len(PREFIX) :], len(content)) == content


@given(documents())
def test_the_reference_reads_frames_of_this_package(reference: Reference, document: tuple[str, bytes]) -> None:
    _, content = document
    assert reference("decode", PREFIX + m2m.encode(content)) == content
