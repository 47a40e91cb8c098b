"""AVP: the frame of a tensor, its metadata in Protocol Buffers, and KV-caches (annex C)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

from ..core import zstd
from ..core.errors import ParlanceError
from ..core.wire import text_of, varint

HEADER: Final = 12
_MAX_METADATA: Final = 65_536
_MAX_DIMENSIONS: Final = 64
_MAX_U32: Final = 2**32 - 1
_MAX_GROUPS: Final = 64
_COMPRESSED: Final = 0x01
_HAS_MAP: Final = 0x02
_HAS_CACHE: Final = 0x04
#: Bytes of an element, by its type.
SIZES: Final = (4, 2, 2, 1)
DTYPES: Final = ("float32", "float16", "bfloat16", "int8")
_TEXTS: Final = {
    1: "session_id",
    2: "source_agent_id",
    3: "target_agent_id",
    4: "model_id",
    11: "compression",
    13: "avp_map_id",
}
_NUMBERS: Final = {5: "hidden_dim", 6: "num_layers", 7: "payload_type", 8: "dtype", 10: "mode"}
_ENUMS: Final = {"payload_type": 1, "dtype": 3, "mode": 1}
_SHAPE: Final = 9
_EXTRA: Final = 14
_CHECKSUM: Final = 15


@dataclass(slots=True)
class AvpMetadata:
    """The metadata of the payload of an AVP frame; see annex C for the fields."""

    session_id: str = ""
    source_agent_id: str = ""
    target_agent_id: str = ""
    model_id: str = ""
    hidden_dim: int = 0
    num_layers: int = 0
    payload_type: int = 0
    dtype: int = 0
    tensor_shape: tuple[int, ...] = ()
    mode: int = 0
    compression: str = ""
    avp_map_id: str = ""
    extra: dict[str, str] = field(default_factory=dict)
    payload_checksum: int | None = None
    #: Fields that this version does not know, as they came.
    unknown: bytes = b""


def _key(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


def _chunk(number: int, data: bytes) -> bytes:
    return _key(number, 2) + varint(len(data)) + data


def encode_metadata(metadata: AvpMetadata) -> bytes:
    """Write metadata with their fields in ascending order, without those that have 0 or an empty text."""
    fields: dict[int, bytes] = {}
    for number, name in _TEXTS.items():
        if text := getattr(metadata, name):
            fields[number] = _chunk(number, text.encode())
    for number, name in _NUMBERS.items():
        if value := getattr(metadata, name):
            fields[number] = _key(number, 0) + varint(value)
    if metadata.tensor_shape:
        fields[_SHAPE] = _chunk(_SHAPE, b"".join(map(varint, metadata.tensor_shape)))
    if metadata.extra:
        entries = sorted(metadata.extra.items(), key=lambda entry: entry[0].encode())
        fields[_EXTRA] = b"".join(
            _chunk(_EXTRA, _chunk(1, key.encode()) + _chunk(2, value.encode())) for key, value in entries
        )
    if metadata.payload_checksum is not None:
        fields[_CHECKSUM] = _key(_CHECKSUM, 0) + varint(metadata.payload_checksum)
    return b"".join(fields[number] for number in sorted(fields)) + metadata.unknown


def _read_fields(data: bytes) -> list[tuple[int, int, Any, bytes]]:
    """Return number, wire type, value and bytes of each field."""
    fields = []
    at = 0
    while at < len(data):
        start = at
        try:
            key, at = _protobuf_varint(data, at)
            number, wire_type = key >> 3, key & 7
            value: Any
            if wire_type == 0:
                value, at = _protobuf_varint(data, at)
            elif wire_type == 2:
                size, at = _protobuf_varint(data, at)
                value, at = data[at : at + size], at + size
            elif wire_type in (1, 5):
                size = 8 if wire_type == 1 else 4
                value, at = data[at : at + size], at + size
            elif wire_type == 3:
                value, at = None, _skip_group(data, at, number)
            else:
                raise ParlanceError("bad_message", f"wire type {wire_type}")
        except IndexError:
            raise ParlanceError("bad_message", "metadata of AVP that are cut off") from None
        if at > len(data) or not 1 <= number < 2**29:
            raise ParlanceError("bad_message", "metadata of AVP that are malformed")
        fields.append((number, wire_type, value, data[start:at]))
    return fields


def _skip_group(data: bytes, at: int, group: int) -> int:
    """Return where a group ends, which is an old kind of field that this version does not know."""
    open_groups = [group]
    while open_groups:
        key, at = _protobuf_varint(data, at)
        number, wire_type = key >> 3, key & 7
        if wire_type == 3:
            open_groups.append(number)
        elif wire_type == 4:
            if open_groups.pop() != number:
                raise ParlanceError("bad_message", "groups that cross")
        elif wire_type == 0:
            _, at = _protobuf_varint(data, at)
        elif wire_type == 2:
            size, at = _protobuf_varint(data, at)
            at += size
        else:
            at += {1: 8, 5: 4}.get(wire_type, len(data))
        if len(open_groups) > _MAX_GROUPS or at > len(data):
            raise ParlanceError("bad_message", "a group that is malformed")
    return at


def _protobuf_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a varint of Protocol Buffers, which may be overlong, of at most ten bytes."""
    value = 0
    for index in range(10):
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value >= 2**64:
                break
            return value, at + index + 1
    raise ParlanceError("bad_message", "a varint of more than 64 bits")


def decode_metadata(data: bytes) -> AvpMetadata:
    """Read metadata (AVPF-4).

    Raises
    ------
    ParlanceError
        `bad_message`, `bad_utf8`, `bad_tensor`.
    """
    metadata = AvpMetadata()
    shape: list[int] = []
    for number, wire_type, value, raw in _read_fields(data):
        if number in _TEXTS and wire_type == 2:
            setattr(metadata, _TEXTS[number], text_of(value))
        elif number in _NUMBERS and wire_type == 0:
            name = _NUMBERS[number]
            if name in _ENUMS and value > _ENUMS[name]:
                raise ParlanceError("bad_message", f"an unknown value of {name}")
            setattr(metadata, name, value & _MAX_U32)
        elif number == _SHAPE and wire_type == 2:
            at = 0
            while at < len(value):
                try:
                    dimension, at = _protobuf_varint(value, at)
                except IndexError:
                    raise ParlanceError("bad_message", "a shape that is cut off") from None
                shape.append(dimension & _MAX_U32)
        elif number == _SHAPE and wire_type == 0:
            shape.append(value & _MAX_U32)
        elif number == _EXTRA and wire_type == 2:
            key, text = _entry(value)
            metadata.extra[key] = text
        elif number == _CHECKSUM and wire_type == 0:
            metadata.payload_checksum = value & _MAX_U32
        else:
            metadata.unknown += raw
        if len(shape) > _MAX_DIMENSIONS:
            raise ParlanceError("bad_tensor", f"more than {_MAX_DIMENSIONS} dimensions")
    metadata.tensor_shape = tuple(shape)
    return metadata


def _entry(data: bytes) -> tuple[str, str]:
    texts = {1: "", 2: ""}
    for number, wire_type, value, _ in _read_fields(data):
        if number in texts and wire_type == 2:
            texts[number] = text_of(value)
    return texts[1], texts[2]


def encode_head(metadata: AvpMetadata, payload: int, *, compressed: bool = False) -> bytes:
    """Write header and metadata of a frame whose body has so many bytes."""
    coded = encode_metadata(metadata)
    flags = _COMPRESSED * compressed | _HAS_MAP * bool(metadata.avp_map_id) | _HAS_CACHE * (metadata.payload_type == 1)
    return struct.pack("<2sBBII", b"AV", 1, flags, len(coded) + payload, len(coded)) + coded


def decode_head(head: bytes) -> tuple[AvpMetadata, bool]:
    """Read header and metadata, and return these and whether the body is compressed (AVPF-1, AVPF-2).

    Raises
    ------
    ParlanceError
        `bad_header`, `unknown_version`, `bad_compression`, and errors of the metadata.
    """
    if len(head) < HEADER:
        raise ParlanceError("truncated", "an AVP frame without its header")
    magic, version, flags, total, size = struct.unpack_from("<2sBBII", head)
    if magic != b"AV" or flags & 0xF8 or size > total:
        raise ParlanceError("bad_header", "not the header of an AVP frame")
    if version != 1:
        raise ParlanceError("unknown_version", f"version {version} of AVP")
    if size > _MAX_METADATA:
        raise ParlanceError("metadata_too_large", f"metadata of {size} bytes")
    if len(head) < HEADER + size:
        raise ParlanceError("truncated", "metadata of AVP that are cut off")
    metadata = decode_metadata(head[HEADER : HEADER + size])
    if bool(flags & _HAS_MAP) != bool(metadata.avp_map_id) or bool(flags & _HAS_CACHE) != (metadata.payload_type == 1):
        raise ParlanceError("bad_header", "flags that contradict the metadata")
    if metadata.compression not in ("", "zstd") or (metadata.compression and not flags & _COMPRESSED):
        raise ParlanceError("bad_compression", "metadata that contradict the compression")
    return metadata, bool(flags & _COMPRESSED)


def check_payload(metadata: AvpMetadata, size: int) -> None:
    """Check that shape, type and size fit (AVPF-5).

    Raises
    ------
    ParlanceError
        `bad_tensor`.
    """
    element = SIZES[metadata.dtype]
    if metadata.tensor_shape:
        if prod(metadata.tensor_shape) * element != size:
            raise ParlanceError("bad_tensor", f"{size} bytes for the shape {metadata.tensor_shape}")
    elif metadata.payload_type == 0 and metadata.mode == 0 and metadata.hidden_dim and size % element:
        raise ParlanceError("bad_tensor", f"{size} bytes are no whole number of elements")


def open_frame(
    head: bytes, body: bytes | bytearray, most: int, crc: int | None = None
) -> tuple[AvpMetadata, bytes | bytearray]:
    """Verify a frame, and return its metadata and its payload, expanded.

    Parameters
    ----------
    crc : int, optional
        The CRC-32 that came behind the frame.

    Raises
    ------
    ParlanceError
        If the frame is malformed.
    """
    metadata, is_compressed = decode_head(head)
    if is_compressed:
        if len(body) > most:
            raise ParlanceError("message_too_large", f"a compressed tensor of {len(body)} bytes")
        if not zstd.AVAILABLE:
            raise ParlanceError("unsupported", "this tensor needs: pip install 'parlance-client[context]'")
        body = zstd.decompress(bytes(body), most)
    check_payload(metadata, len(body))
    if crc is not None and metadata.payload_checksum is not None:
        raise ParlanceError("trailing_bytes", "a CRC behind a frame that states one")
    stated = metadata.payload_checksum if crc is None else crc
    if stated is not None and zlib.crc32(body) != stated:
        raise ParlanceError("bad_checksum", "the CRC does not fit the payload")
    return metadata, body


def metadata_from(fields: Mapping[str, Any]) -> AvpMetadata:
    """Return metadata with the fields that an application names.

    Raises
    ------
    ParlanceError
        `invalid_argument`.
    """
    try:
        return AvpMetadata(**fields)
    except TypeError as error:
        raise ParlanceError("invalid_argument", f"metadata: {error}") from None
