"""The file of a recording: one safetensors file, mapped into memory, so that opening it reads what is shown."""

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from attn_cli.errors import LoadError, OutputError, reason
from attn_cli.recording.document import BadDocument, RecordingContents, contents_of, document_of
from attn_cli.text import excerpt
from attn_cli.whole_file import WholeFile

KIND = "recording/1"
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "U8": "|u1"}
_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}
_MAP_FROM = 16 * 2**20  # smaller files are read: a mapped file that is cut short later kills the process
_LONGEST_HEADER = 10**8
_AGAIN = "write it again: attn inspect TEXT -m MODEL -o FILE.attn"


def chunks(recording: RecordingContents) -> Iterator[bytes | memoryview]:
    """The bytes of the recording's file, piece by piece; arrays are not copied."""
    document, named = document_of(recording)
    arrays = dict(sorted(named.items(), key=lambda item: -item[1].itemsize))  # so that all are aligned
    content = json.dumps(document, ensure_ascii=True, separators=(",", ":"), allow_nan=True)
    header: dict[str, Any] = {"__metadata__": {"attn": KIND, "recording": content}}
    at = 0
    for name, values in arrays.items():
        dtype = _NAMES.get(values.dtype.newbyteorder("<"))
        if dtype is None:
            raise LoadError(f"{name} is in {values.dtype}, which recordings can't hold", "use --dtype float32")
        header[name] = {"dtype": dtype, "shape": values.shape, "data_offsets": (at, at + values.nbytes)}
        at += values.nbytes
    encoded = json.dumps(header, separators=(",", ":")).encode("ascii")
    encoded += b" " * (-len(encoded) % 8)
    yield len(encoded).to_bytes(8, "little") + encoded
    for values in arrays.values():
        if values.size:
            yield memoryview(np.ascontiguousarray(values).view(np.uint8).reshape(-1))  # type: ignore[arg-type]


def save(recording: RecordingContents, path: str | os.PathLike[str]) -> None:
    """Write a recording to a file, whole or not at all, in place of one of that name; OutputError where it can't be."""
    try:
        whole = WholeFile(Path(path).expanduser().resolve())
        try:
            whole.file.writelines(chunks(recording))
            whole.publish(force=True)
        finally:
            whole.close()
    except OSError as error:
        raise OutputError(f"can't write {path}: {reason(error)}", "is the folder there and writable?") from error


def load(path: str | os.PathLike[str]) -> RecordingContents:
    """Read a recording; LoadError for a file that is none, with what is wrong with it."""
    label = excerpt(os.fspath(path), 200)
    try:
        data = _bytes(Path(path).expanduser())
    except (OSError, ValueError, RuntimeError) as error:
        raise LoadError(f"can't read {label}: {reason(error)}", "check the name and its permissions") from None
    try:
        metadata, arrays = _parsed(data)
        if metadata.get("attn") != KIND:
            raise BadDocument(f"it says {excerpt(str(metadata.get('attn')), 40)}, not {KIND}")
        return contents_of(_json(metadata["recording"]), arrays)
    except BadDocument as error:
        raise LoadError(f"{label} is not a recording that attn can read: {excerpt(str(error))}", _AGAIN) from None


def _bytes(path: Path) -> np.ndarray:
    size = path.stat().st_size
    if not path.is_file() or size < _MAP_FROM:
        return np.frombuffer(path.read_bytes() if path.is_file() else b"", np.uint8)
    return np.memmap(path, np.uint8, mode="r")


def _json(text: bytes | str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadDocument(f"its metadata is not JSON ({type(error).__name__})") from None
    if not isinstance(document, dict):
        raise BadDocument("its metadata is not a JSON object")
    return document


def _parsed(data: np.ndarray) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    length = int.from_bytes(data[:8].tobytes(), "little")
    begin = 8 + length
    if data.size < 8 or length > min(data.size, _LONGEST_HEADER) or begin > data.size:
        raise BadDocument("it is truncated, or not a .safetensors file")
    header = _json(data[8:begin].tobytes())
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise BadDocument("it has no metadata")
    if "recording" not in metadata:
        raise BadDocument("it holds tensors, not a recording")
    body = data[begin:]
    return metadata, {name: _array(name, entry, body) for name, entry in header.items()}


def _array(name: str, entry: Any, body: np.ndarray) -> np.ndarray:
    name = excerpt(name, 40)
    try:
        dtype, shape, (start, stop) = np.dtype(_DTYPES[entry["dtype"]]), entry["shape"], entry["data_offsets"]
        whole = [*shape, start, stop]
    except (KeyError, TypeError, ValueError):
        raise BadDocument(f"{name} has a type that recordings can't hold") from None
    if not isinstance(shape, list) or not all(type(x) is int and x >= 0 for x in whole) or len(shape) > 3:
        raise BadDocument(f"{name} has no shape")
    if stop - start != math.prod(shape) * dtype.itemsize or stop > body.size:
        raise BadDocument(f"{name} lies beyond the end of the file, or is of another size than it says")
    values = body[start:stop]
    aligned = (values.ctypes.data % dtype.itemsize) == 0
    return (values if aligned else values.copy()).view(dtype).reshape(shape)
