"""Captures that interp-engine's validator saved: the tokens that stand in a file of their own beside them.

The layout is that of validator/comparison/dumpio.py in github.com/decoderesearch/interp-engine: ENGINE/ORG/MODEL.npz,
whose arrays are called POINT.LAYER, such as attn_scores.5 `[heads, queries, keys]`, with ENGINE/ORG/MODEL.meta.json
beside it; inputs/ORG/MODEL.json, next to the folders of engines, has the ids.
"""

from pathlib import Path

from attn_cli.errors import InputError
from attn_cli.sources.files.json_document import read_json_document


def interp_engine_tokens(file: Path) -> tuple[int, ...] | None:
    """The token ids of the text of a file that interp-engine saved; None for any other file."""
    meta_file = file.with_name(f"{file.stem}.meta.json")
    if file.suffix != ".npz" or not meta_file.is_file():
        return None
    meta = read_json_document(meta_file, meta_file.name, InputError, "let interp-engine capture it again")
    if not isinstance(meta, dict) or not isinstance(meta.get("hf_id"), str) or "engine" not in meta:
        return None
    above = len(Path(meta["hf_id"]).parts)
    if len(file.absolute().parents) <= above:
        return None
    inputs = file.absolute().parents[above] / "inputs" / f"{meta['hf_id']}.json"
    if not inputs.is_file():
        return None
    ids = read_json_document(inputs, inputs.name, InputError, "let interp-engine tokenize the text again")
    ids = ids.get("input_ids") if isinstance(ids, dict) else None
    return tuple(ids) if isinstance(ids, list) and all(type(number) is int for number in ids) else None
