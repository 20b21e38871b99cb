"""The manifest of a scan: model, options, documents and version. A folder of another scan is refused in a line."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from attn_cli._version import __version__
from attn_cli.errors import InputError
from attn_cli.text import counted, excerpt, visible

LAYOUT = 5

_WORDS = {
    "layout": "version of attn", "model": "model", "type": "model", "weights": "model",
    "revision": "revision", "dtype": "precision", "layers": "--layer", "heads": "--head",
    "pairs": "--head", "chunk": "--chunk", "seed": "--seed", "files": "documents",
    "fields": "--field", "sample": "--sample", "longest": "--memory, and longest text",
}  # fmt: skip
_ALL = ("layers", "heads", "pairs", "sample")  # None means all of them
_NAMES_ALONE = ("attn", "device", "model")  # said in the manifest, but no reason to refuse


class ScannedModel(NamedTuple):
    """The model of a scan; `weights` is a hash, `longest` the tokens that fit into memory, None for no limit."""

    about: Mapping[str, Any]
    weights: str
    longest: int | None = None


def manifest_of(model: ScannedModel, options: Mapping[str, Any], corpus: Mapping[str, Any]) -> dict[str, Any]:
    """What tells a scan from others, for its scan.json: versions, model, options and documents."""
    about = {**model.about, "weights": model.weights, "longest": model.longest}
    return {"layout": LAYOUT, "attn": __version__, **about, **options, **corpus}


def check_manifest(content: Mapping[str, Any]) -> None:
    """Raise ValueError for the content of a scan.json that attn can't have written."""
    scan, progress = content.get("scan"), content.get("progress")
    if not isinstance(scan, dict) or not isinstance(progress, dict) or type(progress.get("finished")) is not bool:
        raise ValueError("it doesn't say what was scanned, and how far")
    if scan.get("layout") != LAYOUT:
        return
    for name in ("type", "revision", "dtype", "device", "model"):
        value = scan.get(name)
        if not isinstance(value, str | None) or (name != "model" and visible(value or "") != (value or "")):
            raise ValueError(f"{name} is not a plain string")
    files, fields, sample = scan.get("files"), scan.get("fields"), scan.get("sample")
    if not isinstance(files, list) or not all(map(_is_file, files)):
        raise ValueError("it names no files")
    if not isinstance(fields, list) or not all(isinstance(field, str) for field in fields):
        raise ValueError("it names no fields")
    if sample is not None and not (isinstance(sample, dict) and {"threshold", "seed"} <= _counts(sample)):
        raise ValueError("sample is not a valid sample")
    if progress["finished"] and not {"documents", "records", "tokens", "rejected"} <= _counts(progress):
        raise ValueError("it counts nothing")
    reasons = progress.get("reasons", None if progress["finished"] else {})
    if not isinstance(reasons, dict) or len(_counts(reasons)) < len(reasons):
        raise ValueError("it counts no reasons")


def _is_file(entry: Any) -> bool:
    return isinstance(entry, dict) and all(isinstance(entry.get(name), str) for name in ("name", "kind", "hash"))


def _counts(values: Mapping[str, Any]) -> set[str]:
    return {name for name, value in values.items() if type(value) is int and 0 <= value < 2**64}


def check_same(now: Mapping[str, Any], before: Mapping[str, Any], folder: str) -> None:
    """Raise InputError, which names the first difference, if the scan in `folder` is of something else."""
    for name in dict.fromkeys((*now, *before)):
        one, other = before.get(name), now.get(name)
        if name in _NAMES_ALONE or one == other:
            continue
        what = f"{'other' if name == 'files' else 'another'} {_WORDS.get(name, name)}"
        one, other = (before.get("model"), now.get("model")) if name in ("type", "weights") else (one, other)
        values = (
            f": {_shown(one, name)} there, {_shown(other, name)} now"
            if name not in ("files", "layout") and one != other
            else ""
        )
        files = f": {_file_difference(one or [], other or [])}" if name == "files" else ""
        raise InputError(
            f"{excerpt(folder)} holds a scan with {what}{values}{files}",
            "give another folder, or --force to begin anew",
        )


def _shown(value: Any, name: str = "") -> str:
    if value is None:
        return "all" if name in _ALL else "none"
    if name == "sample":
        return f"{100 * int(value['threshold']) / 2**64:.4g} % by seed {value['seed']}"
    return excerpt(", ".join(map(str, value)) if isinstance(value, list) else str(value), 60)


def _file_difference(before: Any, now: Any) -> str:
    if len(before) != len(now):
        return f"{counted(len(before), 'file')} there, {len(now)} now"
    for one, other in zip(before, now, strict=True):
        if one["name"] != other["name"]:
            return f"{_shown(one['name'])} there, {_shown(other['name'])} now"
        if one != other:
            return f"{_shown(other['name'])} has changed"
    return "in another order"
