"""Finding and vetting a model before anything of it is loaded or run, and before torch is imported."""

import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attn_cli.errors import InputError, LoadError, optional
from attn_cli.sources.devices import check_names
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.paths import PathKind, expanded, kind_of_path, nearest_path
from attn_cli.sources.huggingface.load.trust import check_configuration, check_files, document_of

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_TOKENIZERS = """tokenizer.json vocab.txt vocab.json tokenizer.model spiece.model merges.txt sentencepiece.bpe.model
    spm.model source.spm tekken.json tokenizer_config.json"""
_TOKENIZER_FILES = _TOKENIZERS.split()
# The files of a processor, which turns images and audio into the model's arrays.
PROCESSOR_FILES = ("processor_config.json", "preprocessor_config.json")
_ADAPTER_FILE = "adapter_config.json"


@dataclass(frozen=True)
class OriginOptions:
    """The settings by which a model is found and loaded, as `Loading` describes them."""

    device: str = "auto"
    dtype: str = "auto"
    trust_remote_code: bool = False
    reads_text: bool = True
    predicts: bool = False


@dataclass(frozen=True)
class Origin:
    """The location of a model: a folder, the file `gguf` in it, or an id on the hub; the folder of its `adapter`."""

    name: str
    path: str
    options: OriginOptions
    gguf: str | None = None
    local: bool = True
    adapter: str | None = None
    revision: str | None = None

    @property
    def settings(self) -> str:
        """What states the model's sizes, as messages name it."""
        return "its header" if self.gguf else "its config.json"

    @property
    def download(self) -> str:
        """The command that downloads a model of the hub into the cache."""
        return f"hf download {self.path}" + (f" --revision {self.revision}" if self.revision else "")

    @property
    def hub(self) -> dict[str, Any]:
        """The arguments of every `from_pretrained`."""
        trusted, file = self.options.trust_remote_code, {"gguf_file": self.gguf} if self.gguf else {}
        return {"trust_remote_code": trusted, "local_files_only": self.local, "revision": self.revision, **file}


def find(name: str, options: OriginOptions) -> Origin:
    """The origin behind a name, with all checks that are possible without loading weights."""
    check_options(options)
    origin = _locate(name, options)
    if origin.gguf:
        return origin
    adapter = _adapter_folder(name)
    with parse_errors(f"the folder {name}", "check its permissions", LoadError):
        if adapter is not None:
            return _base_of(adapter, origin)
        if origin.local:
            _check_folder(origin)
    if not origin.local:
        _check_cached(origin)
    return origin


def check_options(options: OriginOptions) -> None:
    """Raise InputError for invalid values, LoadError where a package that models need is missing."""
    check_names(options.device, options.dtype)
    missing = [package for package in ("torch", "transformers") if not _is_installed(package)]
    if missing:
        line = f"models need {' and '.join(missing)}, not installed here: tables and matrices work without"
        raise LoadError(line, f"pip install {' '.join(missing)}")


def _is_installed(package: str) -> bool:
    with suppress(ImportError, ValueError):  # ValueError: it stands in for one, without a place of its own
        return find_spec(package) is not None
    return package in sys.modules


def _adapter_folder(name: str) -> Path | None:
    """The folder of an adapter (LoRA and the like): `name` itself, or its place in the hub's cache."""
    with suppress(OSError, RuntimeError, ValueError):
        folder = Path(name).expanduser()
        if not folder.exists():
            from attn_cli.sources.huggingface.load.cache import cached_file  # here: local models don't need it

            folder = (cached_file(*_split_revision(name), _ADAPTER_FILE) or folder / _ADAPTER_FILE).parent
        if (folder / _ADAPTER_FILE).is_file() and not (folder / "config.json").is_file():
            return folder
    return None


def _base_of(folder: Path, adapter: Origin) -> Origin:
    """The base model that an adapter in `folder` names, a folder or an id on the hub, with the adapter."""
    name, label = adapter.name, f"{adapter.name}: {_ADAPTER_FILE}"
    check_files(folder, name)
    base = document_of(folder / _ADAPTER_FILE, name).get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise LoadError(f"{label} names no base model", "add base_model_name_or_path, a folder or an id on the hub")
    if not Path(base).expanduser().exists() and (folder / base).is_dir():
        base = str(folder / base)
    if _adapter_folder(base) is not None:
        raise LoadError(f"{name} is an adapter of an adapter ({base})", "merge one by peft, and save that")
    try:
        origin = find(base, adapter.options)
    except LoadError as error:
        raise LoadError(f"{name} is an adapter of {base}: {error.message}", error.hint) from error
    return replace(origin, name=name, adapter=str(folder))


def _check_cached(origin: Origin) -> None:
    from huggingface_hub import constants  # imported here, as the cache: local models don't need it

    from attn_cli.sources.huggingface.load.cache import commit_of, suggest_cached

    if constants.HF_HUB_OFFLINE and commit_of(origin.path, origin.revision) is None:
        hint = f"{suggest_cached(origin.path)} · a path starts with ./ · with a network: {origin.download}"
        raise LoadError(f"{origin.name}: offline, and not in the cache", hint)


def _check_folder(origin: Origin) -> None:
    """Raise LoadError for a folder that holds no model, or one that may not be loaded; InputError for no tokenizer."""
    folder, name = Path(origin.path), origin.name

    def holds(files: Iterable[str]) -> bool:
        return any((folder / file).is_file() for file in files)

    if holds([_ADAPTER_FILE]):  # transformers would load another model, the one it names
        raise LoadError(f"{name} holds an adapter ({_ADAPTER_FILE}) and a model (config.json)", "move one elsewhere")
    if not holds(["config.json"]):
        files = sorted(folder.glob("*.gguf"))
        hint = f"give the file itself: {Path(name) / files[0].name}" if files else "is it a model folder?"
        raise LoadError(f"{name} has no config.json", hint)
    check_files(folder, name)
    check_configuration(folder / "config.json", name, trusts_code=origin.options.trust_remote_code)
    if origin.options.reads_text and not holds(_TOKENIZER_FILES):
        if holds(PROCESSOR_FILES):
            line = f"{name} has no tokenizer, but a processor of images or audio"
            raise InputError(line, "give --image FILE or --audio FILE")
        hint = "copy the original model's tokenizer files into the folder, or give a model of other inputs -F FILE.npz"
        raise LoadError(f"{name} has no tokenizer (none of {', '.join(_TOKENIZER_FILES[:4])}, ...)", hint)


def _split_revision(model: str) -> tuple[str, str | None]:
    """The hub's id of a name that is no path, and the branch, tag or commit after its @; None without one.

    >>> _split_revision("gpt2@v1"), _split_revision("gpt2")
    (('gpt2', 'v1'), ('gpt2', None))
    """
    name, _, revision = model.partition("@")
    return (name, revision) if revision else (model, None)


def _locate(name: str, options: OriginOptions) -> Origin:
    path = expanded(name)
    kind = kind_of_path(path, LoadError)
    if name and kind is PathKind.FOLDER:
        return Origin(name, str(path), options)
    if kind is PathKind.FILE:
        with path.open("rb") as file:
            if file.read(4) == b"GGUF":  # by whatever name, as that of a link
                optional("gguf", "gguf", ".gguf files need")
                return Origin(name, str(path.parent), options, path.name)
        if path.suffix.lower() == ".gguf":
            raise LoadError(f"{name} is not a GGUF file", "is the download complete?")
    if kind is PathKind.FILE and (path.parent / "config.json").is_file():
        raise LoadError(f"{name} is a file of a model", f"give its folder: {path.parent}")
    if name and kind is not PathKind.NOTHING:
        raise LoadError(f"{name} is {kind.value}, not a model folder or .gguf file", "words come in .txt, .vec, .csv")
    hub_id, revision = _split_revision(name)
    if name.startswith(("/", "./", "../", "~")) or name.lower().endswith(".gguf") or not _HUB_ID.fullmatch(hub_id):
        near = nearest_path(path)
        hint = "a hub id has the form name, owner/name or owner/name@revision · a path starts with ./ or /"
        hint = hint if near is None else f"did you mean {name.rstrip('/').removesuffix(path.name)}{near.name}?"
        raise LoadError(f"no model at {name}: no such file or folder", hint)
    return Origin(name, hub_id, options, local=False, revision=revision)


# The names that transformers looks for, in this order; further files may be copies in another format.
_WEIGHT_FILES = ("model.safetensors", "model-*.safetensors", "pytorch_model.bin", "pytorch_model-*.bin")


def weight_bytes(model: Path) -> int:
    """The bytes of a .gguf file, or of the weights in a model's folder; 0 where there are none to be seen."""
    try:
        if model.is_file():
            return model.stat().st_size
        files = next((files for name in _WEIGHT_FILES if (files := [*model.glob(name)])), [])
        return sum(file.stat().st_size for file in files)
    except (OSError, ValueError):  # no permission, a link to nothing, or a null byte in the name
        return 0
