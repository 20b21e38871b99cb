"""Loading a found model and its tokenizer, with every failure in one clear line."""

import logging
import os
import re
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

# Without it transformers asks the hub, in a background thread, to convert other people's checkpoints.
os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")
# The GGUF reader's bar asks neither transformers' switch nor whether stderr is a terminal; tqdm reads this at import.
os.environ.setdefault("TQDM_DISABLE", "1")

import torch
from huggingface_hub import errors as hub_errors
from huggingface_hub import hf_hub_download
from safetensors import SafetensorError, safe_open
from transformers import (
    AutoConfig,
    AutoTokenizer,
    GgufConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from attn_cli.errors import InputError, LimitError, LoadError
from attn_cli.sources.huggingface.known_types import type_of
from attn_cli.sources.huggingface.load.model_classes import model_class, saved_class, stack_of, writing_class
from attn_cli.sources.huggingface.load.origin import DTYPES, Origin, vet
from attn_cli.sources.huggingface.load.quantised import TALKERS
from attn_cli.sources.memory import free_memory
from attn_cli.text import decimal_bytes

# Parts on top of the stack that attention does not pass through: a checkpoint may lack them.
_HEADS = re.compile(
    r"(^|\.)(pooler|lm_head|classifier|score|qa_outputs|cls|embed_out|visual_projection|text_projection)(\.|$)"
)
# Packages that transformers asks for with a link instead of a command.
_PACKAGES = ("torchvision", "torchaudio", "sentencepiece", "protobuf", "pillow")


@dataclass(frozen=True)
class Loaded:
    """A model ready to run, in evaluation mode on its device, with its tokenizer (None if it may do without).

    origin   where it was found, for what else lies there
    backend  whose attention runs: attn's own, or the model's with attn beside it
    writer   the model with the head that writes text, `model` inside it; None if it was not asked for
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None
    about: dict[str, Any]
    origin: Origin
    backend: Literal["attn", "model"] = "attn"
    writer: PreTrainedModel | None = None


def load(origin: Origin, *, writes: bool = False) -> Loaded:
    """The model at `origin` and its tokenizer; with its head if it `writes`.

    Raises LoadError when anything is missing, refused or broken, InputError for a device that isn't there or a model
    that can't write, LimitError for more than fits into memory.
    """
    _hush()
    device = _device(origin.options.device)
    folder = Path(origin.path)
    try:
        if not origin.local:
            config_file = Path(_downloaded_config(origin))
            vet(origin, config_file)
            folder = config_file.parent
        if device.type == "cpu" and origin.options.device_map is None:
            _check_room(origin, folder)
        with _quick_gguf(origin):
            config = AutoConfig.from_pretrained(origin.path, **origin.hub)
            tokenizer = _tokenizer(origin)
            model, report = _writer(origin, config) if writes else _model(origin, config)
    except (LoadError, InputError, LimitError):
        raise
    except Exception as error:  # transformers raises any type here; each becomes one line, --debug shows the rest
        raise explained(error, origin) from error
    _check_weights(origin.name, report, with_head=writes)
    model = model.eval()
    if origin.options.device_map is None:
        model = model.to(device)
    writer = model if writes else None
    if writes:
        model = stack_of(model, config)
    about = {
        "model": origin.name,
        "type": str(config.model_type),
        "revision": None if origin.local else getattr(config, "_commit_hash", None),
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": str(model.device),
    }
    return Loaded(model, tokenizer, about, origin, "attn" if origin.options.backend == "attn" else "model", writer)


def positions(model: PreTrainedModel, *, decoder: bool = False) -> int | None:
    """How many positions the model, or its decoder, has a place for; None where its kind of positions has no end."""
    config = model.config.get_text_config(decoder=decoder or None)
    more = ("max_target_positions",) if decoder else ()
    for name in (*more, "max_position_embeddings", "n_positions", "max_seq_len", "seq_length"):
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            offset = (getattr(config, "pad_token_id", 0) or 0) + 1 if type_of(config).positions_from_padding else 0
            return value - offset
    return None


def _check_room(origin: Origin, folder: Path) -> None:
    """Refuse weights that are larger in their files than the memory that is free: the system would end the process."""
    files = [folder / origin.gguf] if origin.gguf else _weight_files(folder)
    needed, free = sum(file.stat().st_size for file in files), free_memory(swap=True)
    if free is not None and needed > free:
        sizes = f"{decimal_bytes(needed, 'GB')}, and {decimal_bytes(free, 'GB')}"
        raise LimitError(
            f"the weights of {origin.name} take {sizes} are free",
            "a smaller model, a quantised one, or --device-map auto",
        )


def _weight_files(folder: Path) -> list[Path]:
    """The files in a model's folder that transformers takes the weights from; others may hold them once more."""
    kinds = ("model.safetensors", "model-*.safetensors", "pytorch_model.bin", "pytorch_model-*.bin")
    return next((found for kind in kinds if (found := sorted(folder.glob(kind)))), [])


def _downloaded_config(origin: Origin) -> str:
    try:
        return hf_hub_download(
            origin.path, "config.json", revision=origin.options.revision, local_files_only=origin.offline
        )
    except hub_errors.RemoteEntryNotFoundError as error:
        raise LoadError(f"{origin.name} has no config.json", "is it an adapter, or a folder of .gguf files?") from error


def _model(origin: Origin, config: PreTrainedConfig) -> tuple[PreTrainedModel, dict[str, Any]]:
    """The model in evaluation dtype, and transformers' report on what its checkpoint lacked."""
    model, report = _loaded(model_class(config), origin, config)
    saved = saved_class(config)
    if saved in (None, type(model)) or not (_lost(model, report) or _missing(report)):
        return model, report
    whole, whole_report = _loaded(saved, origin, config)
    return (model, report) if _missing(whole_report) else (whole, whole_report)


def _writer(origin: Origin, config: PreTrainedConfig) -> tuple[PreTrainedModel, dict[str, Any]]:
    """The same of the model with the head that writes text; InputError for a type, or a checkpoint, that has none."""
    kind = writing_class(config)
    if kind is None:
        saved = (getattr(config, "architectures", None) or [config.model_type])[0]
        raise InputError(f"{origin.name} ({saved}) writes no text", "leave out --generate, or choose a model that does")
    return _loaded(kind, origin, config)


def _loaded(kind: Any, origin: Origin, config: PreTrainedConfig) -> tuple[PreTrainedModel, dict[str, Any]]:
    """A model of that class, and the report."""
    extra: dict[str, Any] = {}
    if origin.gguf:
        # Packed weights would be multiplied by a kernel fetched from the hub, if the machine can have one.
        extra["quantization_config"] = GgufConfig(dequantize=True)
    found: tuple[PreTrainedModel, dict[str, Any]] = kind.from_pretrained(
        origin.path,
        config=config,
        attn_implementation={"attn": "eager", "model": None}.get(origin.options.backend, origin.options.backend),
        dtype=_dtype(origin.options.dtype),
        device_map=origin.options.device_map,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # so that they are in the report, by name; `_check_weights` refuses them
        **extra,
        **origin.hub,
    )
    return found


def _lost(model: PreTrainedModel, report: dict[str, Any]) -> bool:
    """Whether the files hold a part of the stack, not of a head on it, that the model has no place for."""
    prefix = f"{model.base_model_prefix}."
    return any(key.startswith(prefix) for key in report.get("unexpected_keys", ()))


def _missing(report: dict[str, Any]) -> list[str]:
    """The weights of the stack that the files lack."""
    return sorted(key for key in report.get("missing_keys", ()) if not _HEADS.search(key))


def _tokenizer(origin: Origin) -> PreTrainedTokenizerBase | None:
    """The tokenizer; refused if it is empty, as transformers makes it where files are missing."""
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(origin.path, **origin.hub)
    except Exception:  # of any type; without texts to read it only labels
        if origin.options.reads_text:
            raise
        return None
    if origin.options.reads_text and len(tokenizer) < 2:
        raise LoadError(f"{origin.name}: the tokenizer is empty ({len(tokenizer)} entries)", "are its files complete?")
    return tokenizer


def _check_weights(name: str, report: dict[str, Any], *, with_head: bool) -> None:
    """Refuse weights that transformers would silently fill with random numbers; those of a head only if it is used."""
    missing = _missing(report)
    mismatched = sorted(report.get("mismatched_keys", ()), key=str)
    if with_head and not missing:
        lacking = sorted(report.get("missing_keys", ())) + [key for key, *_ in mismatched]
        head = [key for key in lacking if _HEADS.search(key) and "pooler" not in key]
        if head:
            raise LoadError(
                f"{name} lacks the head that writes text ({head[0]})", "leave out --generate, or load the whole model"
            )
    if missing:
        shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise LoadError(
            f"{name}: {len(missing)} of the model's weights are missing from its files ({shown})",
            "they would be random numbers; is this the right checkpoint for its config.json?",
        )
    for key, found, expected in mismatched:
        if not _HEADS.search(key):
            raise LoadError(
                f"{name}: {key} is {list(found)} in its files and {list(expected)} by config.json",
                "is this the right checkpoint for its config.json?",
            )


def explained(error: Exception, origin: Origin) -> LoadError | LimitError:
    """A loading failure of transformers or the hub as one line and what to do."""
    first_line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if isinstance(error, KeyError):  # whose message is the key alone
        first_line = f"KeyError: {first_line}"
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate memory" in str(error):
        return LimitError(f"{origin.name} doesn't fit into memory: {first_line}", "is its config.json right?")
    if isinstance(error, hub_errors.GatedRepoError):
        return LoadError(f"{origin.name} is gated", "ask for access on its page, then: hf auth login")
    if isinstance(error, hub_errors.RevisionNotFoundError):
        return LoadError(f"{origin.name} has no such revision", "see the branches and tags on its page")
    if isinstance(error, hub_errors.RepositoryNotFoundError):
        return LoadError(f"the hub has no model {origin.name}", "check the spelling; private models need hf auth login")
    if isinstance(error, hub_errors.LocalEntryNotFoundError | hub_errors.OfflineModeIsEnabled) or (
        not origin.local and origin.offline
    ):
        reason = "offline, and not in the cache" if origin.offline else "the hub can't be reached"
        return LoadError(
            f"{origin.name}: {reason}", f"with a network: hf download {origin.name}; a path starts with ./"
        )
    if isinstance(error, ImportError) or "missing optional dependencies" in str(error).lower():
        return LoadError(f"{origin.name} needs what is not installed here: {first_line}", _install(error))
    if "trust_remote_code" in str(error):  # a tokenizer of its own, for example; config.json was looked at before
        return LoadError(
            f"{origin.name} brings code of its own and was not run", "if you trust it, add --trust-remote-code"
        )
    if broken := _broken_weights(origin):
        return LoadError(f"{origin.name}: {broken}", "is the download complete?")
    return LoadError(f"{origin.name} can't be loaded: {first_line}", "--debug shows the whole story")


def _install(error: Exception) -> str:
    """How to install what transformers misses, if it says what that is."""
    asked = re.search(r"pip\s+install [\w-]+", str(error))
    named = next((name for name in _PACKAGES if name in str(error).lower()), None)
    return asked[0] if asked else f"pip install {named}" if named else "install what it names and try again"


def _broken_weights(origin: Origin) -> str:
    """The first weight file of a local folder that can't be opened, and why; transformers doesn't say which."""
    if not origin.local or origin.gguf:
        return ""
    for path in sorted(Path(origin.path).glob("*.safetensors")):
        try:
            with safe_open(path, "pt"):
                pass
        except (SafetensorError, OSError) as error:
            return f"{path.name} is broken or cut short ({error})"
    return ""


def _quick_gguf(origin: Origin) -> AbstractContextManager[None]:
    if not origin.gguf:
        return nullcontext()
    # Here and not above: gguf is an optional package.
    from attn_cli.sources.huggingface.load.gguf_once import read_once

    return read_once()


def _dtype(name: str) -> Any:
    known = DTYPES[name]
    return known if known == "auto" else getattr(torch, known)


def _device(name: str) -> torch.device:
    """The device of that name; "auto" is the first of cuda, mps, cpu that is there."""
    counts = {
        "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0,
        "mps": int(torch.backends.mps.is_available()),
        "cpu": 1,
    }
    there = [kind for kind, count in counts.items() if count]
    if name == "auto":
        return torch.device(there[0])
    kind, _, number = name.partition(":")
    if kind not in there or not (number or "0").isdecimal() or int(number or 0) >= counts[kind]:
        listed = [f"{kind}:{i}" if kind == "cuda" else kind for kind in there for i in range(counts[kind])]
        raise InputError(f"no device {name!r} here", f"available: {', '.join(listed)}")
    return torch.device(name)


def _hush() -> None:
    """transformers talks on stderr whether it is a terminal or not; attn says what matters itself."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    for name in TALKERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"(transformers|torch|huggingface_hub)\b")
