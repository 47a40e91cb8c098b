"""M2M frames between this package and the reference, the crate `m2m-protocol` 0.4.0, which `npm run nightly` builds."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedOK

from conftest import Server, run
from parlance.codecs import brotli, m2m

PROGRAM = os.environ.get("M2M_REFERENCE", "")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="M2M_REFERENCE names no program of conformance/reference/m2m")
PREFIX = b"#M2M|1|"
TEXTS = st.text(st.characters(codec="utf-8"), max_size=60)


class Reference:
    def __init__(self) -> None:
        self.process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, what: str, data: bytes = b"") -> bytes:
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


# --- sessions in `m2m.v1.json`

CHAT = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": "Grüße"}]}, ensure_ascii=False)
PREFIXES = {"m2m": "#M2M|1|", "brotli": "#M2M[v3.0]|DATA:", "none": ""}
ENVELOPE = {"session_id": "sess_1", "timestamp": 1}


class ReferenceSession:
    def __init__(self, reference: Reference, algorithm: str) -> None:
        self._reference = reference
        self.says("session", algorithm)

    def says(self, what: str, text: str = "") -> str:
        return self._reference(what, text.encode()).decode()


def nested(algorithm: str) -> dict[str, Any]:
    """Return capabilities as the reference states them."""
    lists = {"algorithms": [algorithm], "encodings": [], "preferred_encoding": "Cl100kBase"}
    return {
        "version": "3.0",
        "agent_id": "",
        "agent_type": "parlance",
        "extensions": {},
        "compression": {**lists, "max_payload": 0, "streaming": True, "ml_routing": False},
        "security": {"threat_detection": False, "model_version": None, "blocking_mode": False, "block_threshold": 0.8},
    }


def message(kind: str, payload: dict[str, Any]) -> str:
    return json.dumps({"type": kind, **ENVELOPE, "payload": payload})


@pytest.mark.parametrize("algorithm", ["M2M", "BROTLI", "NONE", "TOKEN_NATIVE"])
def test_a_session_of_the_reference_with_a_server(reference: Reference, plain_server: Server, algorithm: str) -> None:
    async def main() -> None:
        session = ReferenceSession(reference, algorithm)
        async with connect(plain_server.url, subprotocols=["m2m.v1.json"], ping_interval=None) as socket:
            await socket.send(session.says("hello"))
            assert session.says("process", str(await socket.recv())) == ""
            assert session.says("state") == "Established"
            for text in (CHAT, CHAT.replace("Grüße", "x" * 5_000)):
                await socket.send(session.says("compress", text))
                answer = str(await socket.recv())
                assert json.loads(answer)["payload"]["algorithm"] == algorithm.lower().replace("_", "")
                assert session.says("decompress", answer) == text
            await socket.send(session.says("close"))
            assert session.says("process", str(await socket.recv())) == ""
            assert session.says("state") == "Closed"
            with pytest.raises(ConnectionClosedOK):
                await socket.recv()

    run(main())


@pytest.mark.parametrize("algorithm", ["m2m", "brotli", "none"])
@pytest.mark.parametrize("begins", [True, False])
def test_a_session_of_the_reference_with_this_package(reference: Reference, algorithm: str, begins: bool) -> None:
    session = ReferenceSession(reference, algorithm.upper())
    if begins:
        assert json.loads(session.says("hello"))["payload"]["compression"]["algorithms"] == [algorithm]
        assert session.says("process", message("ACCEPT", nested(algorithm))) == ""
    else:
        accept = json.loads(session.says("process", message("HELLO", nested(algorithm))))
        assert accept["type"] == "ACCEPT"
        assert accept["payload"]["compression"]["algorithms"] == [algorithm]
    assert session.says("state") == "Established"

    prefix, content = PREFIXES[algorithm], CHAT.encode()
    encode = {"m2m": m2m.encode, "brotli": brotli.encode}.get(algorithm)
    told = CHAT if encode is None else prefix + base64.b64encode(encode(content)).decode()
    assert session.says("decompress", message("DATA", {"algorithm": algorithm, "content": told})) == CHAT

    data = json.loads(session.says("compress", CHAT))["payload"]
    assert data["algorithm"] == algorithm
    heard = data["content"].removeprefix(prefix)
    decode = {"m2m": m2m.decode, "brotli": brotli.decode}.get(algorithm)
    assert (heard.encode() if decode is None else decode(base64.b64decode(heard), len(content))) == content

    assert json.loads(session.says("process", message("PING", {})))["type"] == "PONG"
    assert session.says("process", message("CLOSE", {"reason": "NORMAL", "message": ""})) == ""
    assert session.says("state") == "Closed"


def test_the_reference_reads_no_flat_capabilities(reference: Reference) -> None:
    """Its document states them so, and its program does not read them: a client of it needs the nested shape."""
    session = ReferenceSession(reference, "NONE")
    flat = message("HELLO", {"version": "3.0", "algorithms": ["NONE"], "encodings": [], "extensions": {}})
    with pytest.raises(AssertionError, match="HELLO missing capabilities"):
        session.says("process", flat)
