"""Refusal of configurations that run code or foreign kernels, and of folders with links elsewhere, pipes or devices."""

from pathlib import Path, PurePath
from typing import Any

from attn_cli.errors import LoadError
from attn_cli.sources.files.paths import PathKind, kind_of_path, nested, read_json
from attn_cli.text import excerpt

_TYPE = "model_type"  # a string wherever a configuration has it
_ATTENTION_KEYS = ("_attn_implementation", "_attn_implementation_internal", "attn_implementation")
_SAFE_ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")


def check_configuration(path: Path, name: str, *, trusts_code: bool) -> None:
    """Raise LoadError for a config.json that can't be read, or asks for code or an attention kernel from elsewhere."""
    for place, part in nested(document_of(path, name), "config.json"):
        if not isinstance(part, dict):
            continue
        if not isinstance(part.get(_TYPE, ""), str):
            raise LoadError(f"{name}: {_TYPE} is not a word ({place})", "is it the right file?")
        if "auto_map" in part and not trusts_code:
            line = f"{name} brings code of its own ({place}: auto_map) and was not run"
            raise LoadError(line, "if you trust it, add --trust-remote-code")
        for key in _ATTENTION_KEYS:
            kernel = part.get(key)
            if not (kernel is None or kernel in _SAFE_ATTENTION):
                line = f"{name} asks for the attention kernel {kernel!r} ({place}: {key}) and was refused"
                raise LoadError(line, "remove the key from config.json: attn brings its own attention")


_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".h5", ".msgpack")
# The other files that models, tokenizers and processors are read from.
_READ = (".json", ".txt", ".model", ".jinja", ".tiktoken", ".py")
_READ_FOLDERS = ("additional_chat_templates",)


def check_files(folder: Path, name: str) -> None:
    """Raise LoadError for a folder that would have files outside it read, or what is no plain file."""
    for path in sorted(folder.iterdir()):
        _check_plain(path, f"{name}: {excerpt(path.name)}")
        if path.suffix in _READ or path.name in _READ_FOLDERS:
            _check_link(folder, path, name)
        if path.name.endswith(".index.json") and path.is_file():
            _check_index(folder, path, name)
        if path.name == "tokenizer_config.json" and path.is_file():
            others = document_of(path, name).get("fast_tokenizer_files")
            for file in others if isinstance(others, list) else []:
                _check_inside(folder, file, f"{name}: {path.name}")


def _check_plain(path: Path, label: str) -> None:
    kind = kind_of_path(path, LoadError)
    if kind in (PathKind.PIPE, PathKind.DEVICE):
        raise LoadError(f"{label} is {kind.value}, not a file", "copy the file itself there")
    if kind is PathKind.NOTHING and path.is_symlink() and path.suffix in _WEIGHTS:
        raise LoadError(f"{label} is a link to a missing file: {excerpt(str(path.readlink()), 80)}", "link it again")


def _check_index(folder: Path, path: Path, name: str) -> None:
    shards = document_of(path, name).get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(file, str) for file in shards.values()):
        raise LoadError(f"{name}: {path.name} has no map of weights to files", "is the download complete?")
    for file in sorted(set(shards.values())):
        _check_inside(folder, file, f"{name}: {path.name}")


def _check_inside(folder: Path, file: Any, label: str) -> None:
    """Raise LoadError unless `file`, named in the file `label`, is in the folder; as a link, if it holds weights."""
    parts = PurePath(str(file)).parts
    hint = "shards lie in the model's folder, beside their index"
    if not isinstance(file, str) or not parts or ".." in parts or PurePath(file).is_absolute():
        raise LoadError(f"{label} names a file outside the folder: {excerpt(str(file), 80)!r}", hint)
    path = folder / file
    _check_plain(path, f"{label}: {excerpt(file, 80)}")
    if path.suffix not in _WEIGHTS and not _is_inside(folder, path):
        raise LoadError(f"{label} names {excerpt(file, 80)!r}, a link that leaves the folder", f"{hint}: copy it there")


def _check_link(folder: Path, path: Path, name: str) -> None:
    """Raise LoadError for a link out of `folder`, or a folder with one, unless to that file of another model."""
    inner = [*path.iterdir()] if path.name in _READ_FOLDERS and path.is_dir() else []
    for each in (path, *inner):
        if not (_is_inside(folder, each) or _is_of_a_model(each)):
            label = excerpt(str(each.relative_to(folder)), 80)
            hint = "link to that file of a model's folder, or copy it: attn guide models"
            raise LoadError(f"{name}: {label} is a link that leaves the folder", hint)


def _is_inside(folder: Path, path: Path) -> bool:
    real, home = path.resolve(), folder.resolve()
    # snapshots/REVISION/FILE is a link to blobs/HASH in the hub's cache
    blobs = home.parent.parent / "blobs" if home.parent.name == "snapshots" else home
    return real.is_relative_to(home) or real.is_relative_to(blobs)


def _is_of_a_model(link: Path) -> bool:
    """True for a link to a file of its own name among the files of a model, which are no secrets."""
    if not link.is_symlink():
        return False
    other = link.parent / link.readlink()
    files = [*other.parent.iterdir()] if (other.parent / "config.json").is_file() else []
    return other.name == link.name and any(x.suffix in _WEIGHTS for x in files) and _is_inside(other.parent, other)


def document_of(path: Path, name: str) -> dict[str, Any]:
    """The object in a JSON file of a model's folder; LoadError for any other content."""
    document = read_json(path, f"{name}: {path.name}", LoadError, "is the download complete?")
    if not isinstance(document, dict):
        raise LoadError(f"{name}: {path.name} is not an object", "is it the right file?")
    return document
