"""Codecs, and the golden vectors of the repository."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT, decode_avp
from parlance.codecs import avp, brotli, dictionary, m2m, t1
from parlance.codecs.json_text import parse
from parlance.core.errors import ParlanceError
from parlance.tensors import tensor_of

VECTORS = ROOT / "conformance/vectors"
MOST = 16 * 1024 * 1024


def load(name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((VECTORS / f"{name}.json").read_text("utf-8"))
    return value


def cases(name: str, *sections: str) -> list[Any]:
    vectors = load(name)
    return [
        pytest.param(case, id=f"{section}-{index}-{case.get('name', '') if isinstance(case, dict) else ''}")
        for section in sections
        for index, case in enumerate(vectors[section])
    ]


# --- properties


@given(st.text(st.characters(max_codepoint=127)).map(str.encode))
def test_dictionary(content: bytes) -> None:
    assert dictionary.decode(dictionary.encode(content), len(content)) == content


def test_dictionary_is_bounded() -> None:
    assert dictionary.decode(b"\x80", 26) == b'{"role":"user","content":"'
    for data, most, code in ((b"\x80", 25, "decompressed_too_large"), (b"\x88", 99, "bad_compression")):
        with pytest.raises(ParlanceError, match=code):
            dictionary.decode(data, most)
    with pytest.raises(ParlanceError, match="unrepresentable"):
        dictionary.encode("ü".encode())


@pytest.mark.skipif(not brotli.AVAILABLE, reason="brotli is not installed")
def test_brotli_is_bounded() -> None:
    packed = brotli.encode(bytes(100_000))
    assert brotli.decode(packed, 100_000) == bytes(100_000)
    broken = {packed + b"x": "trailing_bytes", packed[:-1]: "bad_compression", b"": "bad_compression"}
    for data, code in {**broken, b"\x11" + packed[1:]: "bad_compression"}.items():
        with pytest.raises(ParlanceError, match=code):
            brotli.decode(data, 100_000)
    with pytest.raises(ParlanceError, match="decompressed_too_large"):
        brotli.decode(packed, 99_999)


words = st.sampled_from(
    ["messages", "m", "role", "r", "user", "u", "model", "gpt-4o", "4o", "name", "n", "stop", "tools"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=25,
)


@given(st.dictionaries(words, values, max_size=5))
def test_t1_restores_the_meaning_or_refuses(value: dict[str, Any]) -> None:
    try:
        coded, expanded = t1.encode(json.dumps(value).encode())
    except ParlanceError as error:
        assert error.code == "unrepresentable"
        return
    restored = t1.decode(coded, expanded)
    assert len(restored) == expanded
    assert {**json.loads(restored), **value} == json.loads(restored)


@given(st.dictionaries(words, values, max_size=5) | values)
def test_m2m_restores_every_byte(value: Any) -> None:
    content = json.dumps(value).encode()
    try:
        coded = m2m.encode(content)
    except ParlanceError as error:
        assert error.code == "unrepresentable"
        return
    assert m2m.decode(coded, len(content)) == content


@pytest.mark.parametrize("mode", ["hmac", "aead"])
def test_protection(mode: str) -> None:
    pytest.importorskip("cryptography")
    key, other = m2m.Key(mode, bytes(32)), m2m.Key(mode, bytes(31) + b"x")
    for content in (b"", b"text", b'{"model":"m","messages":[]}' * 9):
        coded = m2m.encode(content, key=key)
        assert m2m.decode(coded, len(content), key=key) == content
        with pytest.raises(ParlanceError, match="authentication_failed"):
            m2m.decode(coded, len(content), key=other)
        with pytest.raises(ParlanceError, match="authentication_failed"):
            m2m.decode(coded[:-1] + bytes([coded[-1] ^ 1]), len(content), key=key)
        with pytest.raises(ParlanceError, match="security_required"):
            m2m.decode(coded, len(content))
    assert "0000" not in repr(key)


def test_json_is_bounded_before_it_is_built() -> None:
    assert parse("[" * 512 + "]" * 512)
    for text, code in (
        ("[" * 513 + "]" * 513, "json_too_deep"),
        ("NaN", "bad_json"),
        ("[" * 4_000_000, "too_many_values"),
    ):
        with pytest.raises(ParlanceError, match=code):
            parse(text)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", ">f4"])
def test_an_array_becomes_a_tensor(dtype: str) -> None:
    array = np.arange(12).astype(dtype).reshape(3, 4)
    tensor = tensor_of(array)
    assert tensor.shape == (3, 4)
    assert (tensor.numpy() == array).all()
    transposed = tensor_of(array.T)
    assert (transposed.numpy() == array.T).all()
    if dtype == "float32":
        assert np.shares_memory(np.frombuffer(tensor.data, dtype), array)
    with pytest.raises(ParlanceError, match="bad_tensor"):
        tensor_of(array.astype("complex64"))


# --- golden vectors


def accepted(case: dict[str, Any], action: Any) -> Any:
    """Return what an action returns; it has to accept and to refuse as the verdict says."""
    verdict = case.get("verdict", "accept")
    try:
        value = action()
    except ParlanceError as error:
        assert verdict != "accept", error
        return None
    assert verdict != "reject", value
    return value


def base64_of(text: str) -> bytes:
    """Read base64 in its one spelling (CONV-3): link frames have none, and the vectors have texts."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        data = b""
    if base64.b64encode(data).decode() != text:
        raise ParlanceError("bad_base64", "a text is not base64")
    return data


def m2m_body(case: dict[str, Any]) -> bytes:
    text = case.get("text") or case.get("frame_string")
    if text is not None:
        if not text.startswith("#M2M|1|"):
            raise ParlanceError("unknown_prefix", text[:8])
        return base64_of(text[7:])
    frame = bytes.fromhex(case["frame_hex"])
    if frame[:7] != b"#M2M|1|":
        raise ParlanceError("unknown_prefix", repr(frame[:8]))
    return frame[7:]


@pytest.mark.parametrize("case", cases("m2m-frame", "decode"))
def test_m2m_frames(case: dict[str, Any]) -> None:
    read = accepted(case, lambda: m2m.read(m2m_body(case), MOST))
    payload = case.get("reference_decode", {}).get("payload") if case.get("reference_decode") else None
    if read is not None and payload is not None:
        assert read[1].decode() == payload


@pytest.mark.parametrize("case", cases("m2m-frame", "encode", "constructed"))
def test_m2m_messages(case: dict[str, Any]) -> None:
    if "encode_hex" not in case or case.get("conformance", "byte-exact") != "byte-exact":
        pytest.skip("the reference contradicts its document here")
    content = case["input_json"].encode()
    header, payload = m2m.read(bytes.fromhex(case["encode_hex"])[7:], MOST)
    assert payload == content
    try:
        own, again = m2m.read(m2m.encode(content), MOST)
    except ParlanceError as error:
        assert error.code == "unrepresentable"
        return
    assert again == content
    if case.get("conformance") == "byte-exact" and case.get("constructor") == "auto":
        ours = (own.schema, own.model, own.id, own.roles, own.numbers)
        assert ours == (header.schema, header.model, header.id, header.roles, header.numbers)


@pytest.mark.parametrize("case", cases("m2m-secure", "positive", "negative"))
def test_m2m_protection(case: dict[str, Any]) -> None:
    pytest.importorskip("cryptography")
    body, secret = m2m_body({**case, "frame_string": None}), bytes.fromhex(case["key_hex"])
    mode = case.get("mode") or ("aead" if len(body) > 3 and body[3] == 2 else "hmac")

    def read() -> Any:
        return m2m.read(body, MOST, key=m2m.Key(mode.lower(), secret))

    read_case = accepted({"verdict": case.get("verdict", "accept")}, read)
    if "input_json" in case:
        assert read_case[1].decode() == case["input_json"]


@pytest.mark.parametrize("case", cases("m2m-legacy", "brotli_v3"))
def test_brotli_of_the_reference(case: dict[str, Any]) -> None:
    if case["wire"].startswith("#M2M[v3.0]|DATA:"):
        coded = base64_of(case["wire"].removeprefix("#M2M[v3.0]|DATA:"))
        assert brotli.decode(coded, MOST).decode() == case["input"]


def blob(given: dict[str, Any]) -> bytes:
    if "hex" in given:
        return bytes.fromhex(given["hex"])
    if "b64" not in given:
        pytest.skip("the vector gives a recipe in place of bytes")
    return base64.b64decode(given["b64"])


@pytest.mark.parametrize("case", cases("avp-frame", "cases"))
def test_avp_frames(case: dict[str, Any]) -> None:
    frame, payload = blob(case["frame"]), case["payload"]
    metadata, read = decode_avp(frame, MOST)
    assert hashlib.sha256(read).hexdigest() == payload["sha256"]
    given = case.get("metadata")
    if case["check"] != "encode+decode" or given is None or case["options"]["compression"] != "NONE":
        return
    texts = {
        name: given[name] for name in ("session_id", "source_agent_id", "target_agent_id", "model_id", "avp_map_id")
    }
    own = avp.AvpMetadata(
        **texts,
        hidden_dim=given["hidden_dim"],
        num_layers=given["num_layers"],
        payload_type=int("KV_CACHE" in given["payload_type"]),
        dtype=avp.DTYPES.index(given["dtype"].lower()),
        tensor_shape=tuple(given["tensor_shape"]),
        mode=int(given["mode"] != "LATENT"),
        extra=dict(given["extra"]),
        payload_checksum=metadata.payload_checksum,
    )
    assert avp.encode_head(own, len(read)) + bytes(read) == frame


@pytest.mark.parametrize("case", cases("avp-invalid", "cases"))
def test_avp_frames_that_are_wrong(case: dict[str, Any]) -> None:
    frame = blob(case["frame"])
    accepted(case, lambda: decode_avp(frame, MOST))
