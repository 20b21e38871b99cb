"""Loading a model and its tokenizer: found first, vetted next, then loaded, with every failure in one clear line.

Nothing from a model's repository runs unless the user said `--trust-remote-code`; a configuration that names code of
its own or a foreign attention kernel is refused before transformers reads it.
"""

import json
import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Without it transformers asks the hub, in a background thread, to convert other people's checkpoints.
os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")
# The GGUF reader's bar asks neither transformers' switch nor whether stderr is a terminal; tqdm reads this at import.
os.environ.setdefault("TQDM_DISABLE", "1")

import torch
from huggingface_hub import errors as hub_errors
from huggingface_hub import hf_hub_download
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from attn_cli.errors import InputError, LoadError

DTYPES = {
    "float32": torch.float32,
    "fp32": torch.float32,
    "float16": torch.float16,
    "fp16": torch.float16,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "bf16": torch.bfloat16,
}
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model", "merges.txt",
                    "sentencepiece.bpe.model", "spm.model", "source.spm", "tekken.json")  # fmt: skip
# Parts on top of the stack that attention does not pass through: a checkpoint may lack them.
_HEADS = re.compile(
    r"(^|\.)(pooler|lm_head|classifier|score|qa_outputs|cls|embed_out|visual_projection|text_projection)(\.|$)"
)
_ATTENTION_KEYS = ("_attn_implementation", "_attn_implementation_internal", "attn_implementation")
_SAFE_ATTENTION = {None, "eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention"}


@dataclass(frozen=True)
class ModelOptions:
    """How to load: the options that commands share."""

    revision: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    trust_remote_code: bool = False
    offline: bool = False


@dataclass(frozen=True)
class Loaded:
    """A model ready to run, in evaluation mode on its device, with its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    about: dict[str, Any]


@dataclass(frozen=True)
class Origin:
    """Where a model comes from: a folder (and a .gguf file in it), or an id on the hub."""

    name: str
    path: str
    gguf: str | None = None
    local: bool = True


def find(name: str) -> Origin:
    """Decide whether `name` is a folder, a .gguf file or a hub id; a path that isn't there is an error at once."""
    path = Path(name).expanduser()
    if path.is_dir():
        return Origin(name, str(path))
    if path.is_file():
        if path.suffix.lower() == ".gguf":
            return Origin(name, str(path.parent), path.name)
        raise LoadError(f"{name} is a file, not a model folder or .gguf file", "give the folder that holds config.json")
    looks_like_path = name.startswith(("/", "./", "../", "~")) or name.count("/") > 1 or name.lower().endswith(".gguf")
    if looks_like_path or not _HUB_ID.fullmatch(name):
        near = _neighbours(path)
        raise LoadError(f"no model at {name}: no such file or folder", f"did you mean {near}?" if near else
                        "a hub id has the form name or owner/name; a path starts with ./ or /")  # fmt: skip
    return Origin(name, name, local=False)


def load(name: str, options: ModelOptions) -> Loaded:
    """The model `name` and its tokenizer.

    Raises LoadError when anything is missing, refused or broken, InputError for an option that can't be.
    """
    _hush()
    dtype = _dtype(options.dtype)
    device = _device(options.device)
    origin = find(name)
    offline = options.offline or os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
    hub: dict[str, Any] = {"trust_remote_code": options.trust_remote_code, "local_files_only": offline or origin.local}
    if origin.gguf:
        hub["gguf_file"] = origin.gguf
        _require_gguf()
    if not origin.local:
        hub["revision"] = options.revision
    elif options.revision:
        raise InputError("--revision is for models from the hub", f"{name} is a local path")
    try:
        raw = None if origin.gguf else _vetted_config(origin, options, offline)
        config = AutoConfig.from_pretrained(origin.path, **hub)
        tokenizer = _tokenizer(origin, hub)
        model, report = AutoModel.from_pretrained(
            origin.path, config=config, attn_implementation="eager", dtype=dtype, output_loading_info=True, **hub
        )
    except (LoadError, InputError):
        raise
    except Exception as error:  # transformers raises any type here; each becomes one line, --debug shows the rest
        raise _explained(error, origin, offline) from error
    _check_weights(name, report)
    model = model.eval().to(device)
    about = {
        "model": name,
        "type": str(config.model_type),
        "revision": getattr(config, "_commit_hash", None) if raw is not None and not origin.local else None,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": str(model.device),
    }
    return Loaded(model, tokenizer, about)


def positions(model: PreTrainedModel) -> int | None:
    """How many positions the model has a place for; None where its kind of positions has no end."""
    config = model.config.get_text_config()
    for name in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"):
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            # RoBERTa and its kin number positions from padding_idx + 1 on.
            offset = (getattr(config, "pad_token_id", 0) or 0) + 1 if "roberta" in str(config.model_type) else 0
            return value - offset
    return None


def _vetted_config(origin: Origin, options: ModelOptions, offline: bool) -> dict[str, Any]:
    """The raw config.json, refused if it names code of its own (unless trusted) or a foreign attention kernel."""
    if origin.local:
        path = Path(origin.path) / "config.json"
        if not path.is_file():
            adapter = (Path(origin.path) / "adapter_config.json").is_file()
            raise LoadError(
                f"{origin.name} has no config.json",
                "it is a LoRA adapter: merge it into its base model first" if adapter else "is it a model folder?",
            )
    else:
        path = Path(hf_hub_download(origin.path, "config.json", revision=options.revision, local_files_only=offline))
    try:
        raw = json.loads(path.read_text("utf-8"))
    except (ValueError, OSError) as error:
        raise LoadError(f"{origin.name}: config.json can't be read: {error}", "is the download complete?") from error
    if not isinstance(raw, dict):
        raise LoadError(f"{origin.name}: config.json is not an object", "is it the right file?")
    for where, part in _objects(raw, "config.json"):
        if "auto_map" in part and not options.trust_remote_code:
            raise LoadError(
                f"{origin.name} brings code of its own ({where}: auto_map) and was not run",
                "if you trust it, add --trust-remote-code",
            )
        for key in _ATTENTION_KEYS:
            if part.get(key) not in _SAFE_ATTENTION:
                raise LoadError(
                    f"{origin.name} asks for the attention kernel {part[key]!r} ({where}: {key}) and was refused",
                    "remove the key from config.json; attn brings its own attention",
                )
    return raw


def _objects(value: Any, where: str) -> list[tuple[str, dict[str, Any]]]:
    """Every JSON object inside `value`, with its place."""
    if isinstance(value, dict):
        inner = [found for key, x in value.items() for found in _objects(x, f"{where}.{key}")]
        return [(where, value), *inner]
    if isinstance(value, list):
        return [found for i, x in enumerate(value) for found in _objects(x, f"{where}[{i}]")]
    return []


def _tokenizer(origin: Origin, hub: dict[str, Any]) -> PreTrainedTokenizerBase:
    """The tokenizer; refused if its files are missing (transformers would make an empty one)."""
    if origin.local and not origin.gguf:
        folder = Path(origin.path)
        if not any((folder / file).is_file() for file in _TOKENIZER_FILES):
            raise LoadError(
                f"{origin.name} has no tokenizer (none of {', '.join(_TOKENIZER_FILES[:4])}, ...)",
                "copy the tokenizer files of the original model into the folder",
            )
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(origin.path, **hub)
    if len(tokenizer) < 2:
        raise LoadError(f"{origin.name}: the tokenizer is empty ({len(tokenizer)} entries)", "are its files complete?")
    return tokenizer


def _check_weights(name: str, report: dict[str, Any]) -> None:
    """Refuse weights that transformers would silently fill with random numbers."""
    missing = sorted(key for key in report.get("missing_keys", ()) if not _HEADS.search(key))
    if missing:
        shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise LoadError(
            f"{name}: {len(missing)} weights are missing from the checkpoint ({shown})",
            "they would be random numbers; is this the right checkpoint for its config.json?",
        )
    mismatched = sorted(str(key) for key in report.get("mismatched_keys", ()))
    if mismatched:
        raise LoadError(f"{name}: {len(mismatched)} weights have another shape than config.json says ({mismatched[0]})")


def _explained(error: Exception, origin: Origin, offline: bool) -> LoadError:
    """A loading failure of transformers or the hub as one line and what to do."""
    first_line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if isinstance(error, hub_errors.GatedRepoError):
        return LoadError(f"{origin.name} is gated", "ask for access on its page, then: hf auth login")
    if isinstance(error, hub_errors.RevisionNotFoundError):
        return LoadError(f"{origin.name} has no such revision", "see the branches and tags on its page")
    if isinstance(error, hub_errors.RepositoryNotFoundError):
        return LoadError(f"the hub has no model {origin.name}", "check the spelling; private models need hf auth login")
    if isinstance(error, hub_errors.LocalEntryNotFoundError | hub_errors.OfflineModeIsEnabled) or (
        not origin.local and offline
    ):
        reason = "offline, and not in the cache" if offline else "the hub can't be reached"
        return LoadError(
            f"{origin.name}: {reason}", f"with a network: hf download {origin.name}; a path starts with ./"
        )
    if isinstance(error, ImportError):
        return LoadError(
            f"{origin.name} needs a package that is not installed: {first_line}", "install it and try again"
        )
    return LoadError(f"{origin.name} can't be loaded: {first_line}", "--debug shows the whole story")


def _dtype(name: str) -> Any:
    if name == "auto":
        return "auto"
    if name not in DTYPES:
        raise InputError(f"unknown dtype {name!r}", f"one of auto, {', '.join(DTYPES)}")
    return DTYPES[name]


def _device(name: str) -> torch.device:
    available = ["cpu"]
    if torch.backends.mps.is_available():
        available.insert(0, "mps")
    if torch.cuda.is_available():
        available.insert(0, "cuda")
    if name == "auto":
        return torch.device(available[0])
    if name.partition(":")[0] not in available:
        raise InputError(f"no device {name!r} here", f"available: {', '.join(available)}")
    return torch.device(name)


def _require_gguf() -> None:
    try:
        import accelerate  # noqa: F401
        import gguf  # noqa: F401
    except ImportError as error:
        raise LoadError(f".gguf files need the package {error.name}", "pip install 'attn-cli[gguf]'") from error


def _hush() -> None:
    """transformers talks on stderr whether it is a terminal or not; attn says what matters itself."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    warnings.filterwarnings("ignore", module=r"(transformers|torch|huggingface_hub)\b")


def _neighbours(path: Path) -> str:
    """The sibling with the nearest name, if one is near."""
    import difflib

    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, names, 1)
    return str(path.parent / near[0]) if near else ""
