"""AVP frames between this package, the client in JavaScript and the reference, `avp` 0.6.2."""

from __future__ import annotations

import json
import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import avp as reference
import pytest
from avp.codec import decode, encode
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT, command_of, decode_avp
from parlance.codecs import avp

MOST = 2**20
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
NAMES = ("session_id", "source_agent_id", "target_agent_id", "model_id", "avp_map_id")
FIELDS = (*NAMES, "hidden_dim", "num_layers", "extra")


class Javascript:
    """Reads a frame, and writes it again."""

    def __init__(self) -> None:
        command = command_of("e2e/src/python/avp.ts")
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, frame: bytes, compression: str) -> tuple[dict[str, Any], bytes]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(frame.hex(), compression, file=self.process.stdin, flush=True)
        told = json.loads(self.process.stdout.readline())
        return told, bytes.fromhex(told.pop("frame"))


@pytest.fixture(scope="module")
def javascript() -> Iterator[Javascript]:
    javascript = Javascript()
    yield javascript
    javascript.process.kill()
    javascript.process.communicate()


@st.composite
def tensors(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    dtype = draw(st.integers(0, 3))
    shape = tuple(draw(st.lists(st.integers(1, 6), max_size=4)))
    size = avp.SIZES[dtype]
    for length in shape:
        size *= length
    # Most tensors shrink if they are compressed, some do not.
    payload = draw(st.sampled_from((bytes(size), draw(st.binary(min_size=size, max_size=size)))))
    fields: dict[str, Any] = {name: draw(TEXTS) for name in NAMES}
    fields |= {name: draw(st.integers(0, 2**32 - 1)) for name in ("hidden_dim", "num_layers")}
    fields["extra"] = draw(st.dictionaries(TEXTS, TEXTS, max_size=3))
    return payload, fields | {"dtype": dtype, "tensor_shape": shape}


def of_reference(payload: bytes, fields: dict[str, Any], level: str) -> bytes:
    metadata = reference.AVPMetadata(**fields | {"dtype": reference.DataType(fields["dtype"])})
    return encode(payload, metadata, reference.CompressionLevel[level])


def check(message: Any, payload: bytes, fields: dict[str, Any]) -> None:
    """Compare what the reference has read with what was written."""
    assert (message.payload, tuple(message.metadata.tensor_shape)) == (payload, fields["tensor_shape"])
    assert {name: getattr(message.metadata, name) for name in FIELDS} == {name: fields[name] for name in FIELDS}
    assert int(message.metadata.dtype) == fields["dtype"]


@given(tensors(), st.sampled_from(("NONE", "FAST", "MAX")))
def test_this_package_reads_frames_of_the_reference(tensor: tuple[bytes, dict[str, Any]], level: str) -> None:
    payload, fields = tensor
    metadata, read = decode_avp(of_reference(payload, fields, level), MOST)
    assert bytes(read) == payload
    assert {name: value for name, value in asdict(metadata).items() if name in fields} == fields
    assert metadata.payload_checksum == zlib.crc32(payload)


@given(tensors(), st.booleans())
def test_the_reference_reads_frames_of_this_package(tensor: tuple[bytes, dict[str, Any]], has_checksum: bool) -> None:
    payload, fields = tensor
    metadata = avp.AvpMetadata(**fields, payload_checksum=zlib.crc32(payload) if has_checksum else None)
    check(decode(avp.encode_head(metadata, len(payload)) + payload), payload, fields)


@given(tensors(), st.sampled_from(("NONE", "FAST")), st.sampled_from(("none", "fast")))
def test_a_frame_passes_through_all_three(
    javascript: Javascript, tensor: tuple[bytes, dict[str, Any]], level: str, compression: str
) -> None:
    payload, fields = tensor
    told, frame = javascript(of_reference(payload, fields, level), compression)
    assert told == {"crc": zlib.crc32(payload), "shape": list(fields["tensor_shape"])}
    check(decode(frame), payload, fields)
    metadata, read = decode_avp(frame, MOST)
    assert bytes(read) == payload
    assert {name: value for name, value in asdict(metadata).items() if name in fields} == fields
