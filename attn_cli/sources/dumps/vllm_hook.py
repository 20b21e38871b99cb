"""Runs that vLLM-Hook saved: queries and keys after rotary positions, as the attention of vLLM's layers got them.

The layout is that of `ProbeHookQKWorker` in github.com/IBM/vLLM-Hook (workers/probe_hookqk_worker.py), which writes
numbers where VLLM_HOOK_USE_SAFETENSORS=1 is set: a folder for each run, named in RUN_ID.txt, and in it one for each
process, tp_rank_R, where qk.json says what qk.safetensors holds. Arrays are `[texts, longest, heads * width]`, where a
process has some of the heads, or of queries the last alone, `[texts, heads * width]`.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attn_cli.dump import Dump, DumpArray, StatedRule
from attn_cli.errors import InputError
from attn_cli.sources.files.json_document import read_json_document
from attn_cli.sources.files.raw import open_raw
from attn_cli.sources.files.tensors import any_tensor, safetensors_header, tensor_precision
from attn_cli.text import counted, excerpt, listed

_RUNS, _META, _ARRAYS, _PICKLE = "RUN_ID.txt", "qk.json", "qk.safetensors", "qk.pt"
_AGAIN = "let vLLM-Hook save the run again"


class _Shard(NamedTuple):
    """What one process saved: its qk.json, and the arrays beside it."""

    meta: dict[str, Any]
    file: Path


class _Array(NamedTuple):
    """The array of one process: `[texts, longest, columns]`, or `[texts, columns]` of last queries."""

    file: Path
    name: str
    shape: tuple[int, ...]
    precision: str

    def of_text(self, text: int, length: int) -> np.ndarray:
        """The rows of one text `[rows, columns]`, without padding."""
        raw = open_raw(str(self.file), None)
        array = any_tensor(raw, safetensors_header(raw), self.name)[text]
        return array[:length] if array.ndim == 2 else array[None]


def vllm_hook_run(path: Path, label: str, tokens: int | None) -> Dump | None:
    """What vLLM-Hook saved in its newest run in a folder, or in the run or process whose folder this is; else None.

    label   the folder's name in errors
    tokens  how many the text has: of several texts of a run that one is taken

    Raises InputError for a run without numbers, and where it isn't clear which text is meant.
    """
    shards = _shards(path, label)
    if not shards:
        return None
    first = shards[0].meta
    text, length = _text(first, label, tokens)
    arrays = []
    for layer in first["layer_order"]:
        for side in "qk":
            parts = [_array(shard, str(layer["module_name"]), side) for shard in shards]
            rows = length if len(parts[0].shape) == 3 else 1
            shape = (rows, sum(part.shape[-1] for part in parts))
            name = f"layers.{int(layer['layer_num'])}.{side}_rotated"
            arrays.append(DumpArray(name, shape, parts[0].precision, partial(_joined, parts, text, length)))
    if not arrays:
        raise InputError(f"{label} is a run of vLLM-Hook without a layer", _AGAIN)
    return Dump(label, tuple(arrays), stated=_stated(first["config"], arrays[0].shape[-1]))


def _shards(path: Path, label: str) -> list[_Shard]:
    """What each process saved, in the order of their numbers."""
    names = path / _RUNS
    if names.is_file():
        runs = names.read_text("utf-8", errors="replace").split()
        if not runs:
            raise InputError(f"{label} is a folder of vLLM-Hook without a run", _AGAIN)
        path = path / runs[-1]
    folders = [path] if (path / _META).is_file() else sorted(path.glob("tp_rank_*"))
    if not any((folder / _META).is_file() for folder in folders):
        if any((folder / _PICKLE).is_file() for folder in [path, *folders]):
            raise InputError(f"{label} is a run of vLLM-Hook as Python objects ({_PICKLE}), which can run code",
                             "save it as numbers: VLLM_HOOK_USE_SAFETENSORS=1")  # fmt: skip
        return []
    shards = []
    for folder in folders:
        meta = read_json_document(folder / _META, f"{label}: {_META}", InputError, _AGAIN)
        if not isinstance(meta, dict) or not {"config", "layer_order", "batch_size"} <= meta.keys():
            raise InputError(f"{label}: {_META} says nothing of layers", _AGAIN)
        shards.append(_Shard(meta, folder / _ARRAYS))
    return sorted(shards, key=lambda shard: int(shard.meta.get("tp_rank", 0)))


def _text(meta: dict[str, Any], label: str, tokens: int | None) -> tuple[int, int]:
    """The number of the text that is meant, and how many tokens it has."""
    lengths: Sequence[int] = [int(length) for length in meta.get("seq_lens", ())]
    fitting = [at for at, length in enumerate(lengths) if tokens is None or length == tokens]
    if len(fitting) == 1:
        return fitting[0], lengths[fitting[0]]
    of = listed([str(length) for length in lengths], 8)
    if not fitting:
        raise InputError(f"{label} holds no text of {tokens} tokens: its texts have {of}", "are the ids of this run?")
    which = "" if tokens is None else f" of {tokens} tokens"
    raise InputError(f"{label} holds {counted(len(fitting), 'text')}{which}: its texts have {of} tokens",
                     "say which by its ids: --tokens FILE.json; or let vLLM-Hook run one text at a time")  # fmt: skip


def _array(shard: _Shard, module: str, side: str) -> _Array:
    """The queries or keys of a module in one process."""
    name = next((str(one[f"key_{side}"]) for one in shard.meta["layer_order"] if one["module_name"] == module), "")
    raw = open_raw(str(shard.file), None)
    entry = safetensors_header(raw).tensors.get(name)
    if entry is None or len(entry["shape"]) not in (2, 3):
        raise InputError(f"{raw.label} holds no {side} of {excerpt(module, 60)}", _AGAIN)
    return _Array(shard.file, name, tuple(map(int, entry["shape"])), tensor_precision(entry["dtype"]))


def _joined(parts: Sequence[_Array], text: int, length: int) -> np.ndarray:
    """The rows of one text, with the heads of all processes beside each other."""
    return np.concatenate([part.of_text(text, length) for part in parts], axis=-1)


def _stated(config: dict[str, Any], width: int) -> StatedRule:
    """The rule that a run's configuration states, by the true width of its queries.

    Where the model has no factor of its own, the recorder writes that of hidden_size / heads, which isn't every head's
    width.
    """
    heads = int(config["num_attention_heads"])
    scale, usual = float(config["attention_multiplier"]), (int(config["hidden_size"]) // heads) ** -0.5
    scale = (width // heads) ** -0.5 if abs(scale - usual) < 1e-9 else scale
    return StatedRule(heads, int(config["num_key_value_heads"]), scale)
