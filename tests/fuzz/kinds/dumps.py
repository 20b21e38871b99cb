"""Dumps of an engine's queries, keys and values with spoilt bytes, names, sizes and numbers, made into recordings."""

import io
import json
import random
from pathlib import Path

import numpy as np

from tests.fuzz.kinds.archives import spoilt_archive, spoilt_tensors
from tests.fuzz.kinds.case import Case, Make
from tests.spoiling import spoilt_json

_LAYERS, _HEADS, _TOKENS, _SIZE = 2, 4, 6, 8


def dump(shared: Path) -> Make:
    """An archive or a safetensors file of queries, keys and values, with token ids in it or beside it."""
    arrays = _arrays()
    file = io.BytesIO()
    np.savez(file, **arrays)
    archive, tensors, ids = file.getvalue(), _safetensors(arrays), json.dumps(arrays["tokens"].tolist()).encode()

    def make(folder: Path, chance: random.Random) -> Case:
        (folder / "kept.attn").write_bytes(b"a recording of before")
        name = chance.choice(("d.npz", "d.safetensors"))
        content = spoilt_archive(archive, chance) if name == "d.npz" else spoilt_tensors(tensors, chance)
        (folder / name).write_bytes(content)
        (folder / "ids.json").write_bytes(spoilt_json(ids, chance) if chance.random() < 0.5 else ids)
        more = chance.choice(((), ("--tokens", "ids.json"), ("--heads", "4", "--kv-heads", "2"), ("--mask", "none")))
        return Case(
            ("record", "--from", name, *more, "-o", "kept.attn", "--force"), kept=frozenset({"kept.attn", "ids.json"})
        )

    return make


def _arrays() -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(3)
    arrays = {"tokens": np.arange(_TOKENS)}
    for layer in range(_LAYERS):
        for side, heads in (("q", _HEADS), ("k", _HEADS // 2), ("v", _HEADS // 2)):
            arrays[f"layer.{layer}.{side}"] = numbers.normal(size=(heads, _TOKENS, _SIZE)).astype(np.float32)
    return arrays


def _safetensors(arrays: dict[str, np.ndarray]) -> bytes:
    """The bytes of a safetensors file, written by hand: that library's own writer needs torch or its NumPy half."""
    data, header = b"", dict[str, object]({"__metadata__": {"format": "pt"}})
    for name, array in arrays.items():
        kind = {"float32": "F32", "int64": "I64"}[str(array.dtype)]
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    written = json.dumps(header).encode()
    return len(written).to_bytes(8, "little") + written + data
