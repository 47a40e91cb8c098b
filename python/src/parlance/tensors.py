"""Tensors from and to NumPy and PyTorch, without a copy if the layout allows it."""

from __future__ import annotations

import importlib
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .codecs import avp
from .codecs.avp import DTYPES, AvpMetadata
from .core import frames
from .core.errors import ParlanceError
from .core.events import ReceivedBody, TensorReceived
from .core.limits import Limits
from .core.outbox import Body


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor: its bytes, little-endian and row-major, and what they mean.

    Attributes
    ----------
    data : bytes-like
    shape : tuple of int
        Outermost dimension first; empty if its sender has stated none.
    dtype : str
        `float32`, `float16`, `bfloat16` or `int8`.
    metadata : AvpMetadata
    """

    data: bytes | bytearray | memoryview
    shape: tuple[int, ...]
    dtype: str
    metadata: AvpMetadata

    def numpy(self) -> Any:
        """Return it as an array that shares its memory; bfloat16 comes as uint16, for lack of a type.

        Raises
        ------
        ParlanceError
            `unsupported` without NumPy.
        """
        numpy = _module("numpy", "tensors")
        kind = {"bfloat16": "<u2", "float32": "<f4", "float16": "<f2", "int8": "<i1"}[self.dtype]
        array = numpy.frombuffer(self.data, dtype=kind)
        return array.reshape(self.shape) if self.shape else array

    def torch(self) -> Any:
        """Return it as a tensor of PyTorch that shares its memory.

        Raises
        ------
        ParlanceError
            `unsupported` without PyTorch.
        """
        torch = _module("torch", "tensors")
        tensor = torch.frombuffer(self.data, dtype=getattr(torch, self.dtype))
        return tensor.reshape(self.shape) if self.shape else tensor

    def body(self, sender: str | None) -> ReceivedBody:
        """Return it as the body of a message."""
        return ReceivedBody(frames.AVP, b"", b"", None, None, False, sender, 0)

    def __repr__(self) -> str:
        return f"<Tensor {self.dtype} {list(self.shape)}, {len(self.data)} bytes>"


def _module(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ParlanceError("unsupported", f"this needs: pip install {name} (extra {extra!r})") from None


def tensor_of(array: Any) -> Tensor:
    """Return what NumPy, PyTorch or the application has, without a copy if its layout allows that.

    Raises
    ------
    ParlanceError
        `bad_tensor`.
    """
    if isinstance(array, Tensor):
        return array
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return _from_torch(torch, array)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(array, numpy.ndarray):
        return _from_numpy(numpy, array)
    raise ParlanceError(
        "bad_tensor", f"expected an array of NumPy, a tensor of PyTorch, or a Tensor, not {type(array).__name__}"
    )


def _from_numpy(numpy: Any, array: Any) -> Tensor:
    name = array.dtype.name
    if name not in DTYPES:
        raise ParlanceError("bad_tensor", f"the type {name} cannot be sent; use one of {', '.join(DTYPES)}")
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big"):
        array = array.astype(array.dtype.newbyteorder("<"))
    data = numpy.ascontiguousarray(array)
    view = memoryview(data.view(numpy.uint8).reshape(-1)) if data.size else memoryview(b"")
    return Tensor(view, tuple(array.shape), name, AvpMetadata())


def _from_torch(torch: Any, array: Any) -> Tensor:
    name = str(array.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise ParlanceError("bad_tensor", f"the type {name} cannot be sent; use one of {', '.join(DTYPES)}")
    flat = array.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    data = memoryview(flat.numpy()) if array.numel() else memoryview(b"")
    return Tensor(data, tuple(array.shape), name, AvpMetadata())


def tensor_body(array: Any, most: int, fields: Mapping[str, Any] | None) -> Body:
    """Return the request that hands a tensor over.

    Raises
    ------
    ParlanceError
        `bad_tensor`, `transfer_too_large` (TEN-5), `invalid_argument`.
    """
    tensor = tensor_of(array)
    size = len(tensor.data)
    if size > most:
        raise ParlanceError("transfer_too_large", f"a tensor of {size} bytes; {most} are accepted")
    metadata = avp.metadata_from(fields or {})
    metadata.dtype = DTYPES.index(tensor.dtype)
    metadata.tensor_shape = tensor.shape
    metadata.payload_checksum = zlib.crc32(tensor.data)
    avp.check_payload(metadata, size)
    head = avp.encode_head(metadata, size)
    return Body(frames.REQUEST, head, frames.AVP, payload=memoryview(tensor.data))


def read_tensor(event: TensorReceived, limits: Limits) -> Tensor:
    """Verify a tensor (TEN-1).

    Raises
    ------
    ParlanceError
        If the tensor is malformed.
    """
    metadata, payload = avp.open_frame(event.head, event.payload, limits.max_message_size, event.crc)
    return Tensor(payload, metadata.tensor_shape, DTYPES[metadata.dtype], metadata)
