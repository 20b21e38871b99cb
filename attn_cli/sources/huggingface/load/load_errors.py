"""Errors of transformers or the hub during loading, reworded as one line and a hint."""

import json
import re
from pathlib import Path
from pickle import UnpicklingError
from urllib.parse import urlsplit

import torch
from huggingface_hub import constants
from huggingface_hub import errors as hub_errors
from safetensors import SafetensorError, safe_open

from attn_cli.errors import LimitError, LoadError, reason
from attn_cli.sources.huggingface.load.cache import suggest_cached
from attn_cli.sources.huggingface.load.origin import Origin

_COMMAND = re.compile(r"pip\s+install (?:(?:-U|--upgrade) )?['\"]?(\w[\w.\[\],-]*)")


def load_error(error: Exception, origin: Origin) -> LoadError | LimitError:
    """The error to raise in place of `error`, of any type, which ended the loading of `origin`."""
    name, whole = origin.name, str(error)
    lines = [line.strip() for line in whole.splitlines() if line.strip()] or [type(error).__name__]
    line = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    if isinstance(error, KeyError):  # whose message is the key alone
        line = f"KeyError: {line}"
    if "weights only" in line.lower() or isinstance(error, UnpicklingError):  # torch's words advise to run it
        hint = "save the weights as .safetensors, which can hold nothing else"
        line = f"{name}: a weight file in the format of pickles holds more than weights, and was not read"
        return LoadError(line, hint)
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate memory" in whole:
        return LimitError(f"{name} doesn't fit into memory: {line}", f"is {origin.settings} right?")
    if isinstance(error, hub_errors.GatedRepoError):
        return LoadError(f"{name} is gated", "ask for access on its page, then: hf auth login")
    if isinstance(error, hub_errors.RevisionNotFoundError):
        return LoadError(f"{name} has no such revision", "see the branches and tags on its page")
    if isinstance(error, hub_errors.RepositoryNotFoundError):
        hint = f"private ones need hf auth login · {suggest_cached(origin.path)}"
        return LoadError(f"the hub has no model {name}", hint)
    missing: BaseException | None = error
    while missing and not isinstance(missing, hub_errors.LocalEntryNotFoundError | hub_errors.OfflineModeIsEnabled):
        missing = missing.__cause__
    if missing is not None or (constants.HF_HUB_OFFLINE and not origin.local and "does not appear to have" in line):
        return _not_in_cache(missing or error, origin, line)
    if "timed out" in line.lower() and not origin.local:
        hint = "try again: what is there already is kept · HF_HUB_DOWNLOAD_TIMEOUT=60 waits a minute"
        return LoadError(f"{name}: the hub stopped answering in the middle of a download: {line}", hint)
    absent = ("missing optional dependencies", "gpu is required to quantize")
    if isinstance(error, ImportError) or any(words in whole.lower() for words in absent):
        return LoadError(f"{name} needs what is not installed here: {line}", _install(error))
    if "trust_remote_code" in whole:  # a tokenizer of its own, for example; config.json was looked at before
        return LoadError(f"{name} brings code of its own and was not run", "if you trust it, add --trust-remote-code")
    broken = broken_file(origin)
    # What transformers says of a header that gguf can't parse, and what it trips over where one names a token too many.
    if origin.gguf and ("config file" in line or isinstance(error, IndexError)):
        broken = "its header is broken or cut short"
    if broken:
        return LoadError(f"{name}: {broken}", "is the download complete?")
    return LoadError(f"{name} can't be loaded: {line}", "--debug shows the whole story")


def _not_in_cache(error: BaseException, origin: Origin, line: str) -> LoadError:
    if origin.local:
        hint = "put all its files into the folder, or give the hub's id of the model"
        return LoadError(f"{origin.name} names another repository: {line}", hint)
    if constants.HF_HUB_OFFLINE:
        hint = f"with a network: {origin.download} · a path starts with ./"
        return LoadError(f"{origin.name}: offline, and not all in the cache", hint)
    hub = urlsplit(constants.ENDPOINT).netloc
    cause = f": {reason(error.__cause__)}" if error.__cause__ else ""
    hint = f"{suggest_cached(origin.path)} · HF_HUB_OFFLINE=1 asks the cache alone · a path starts with ./"
    return LoadError(f"{origin.name} is not all in the cache, and the hub at {hub} gives nothing{cause}", hint)


def _install(error: Exception) -> str:
    """The command that installs the package transformers misses, in its newest version.

    >>> _install(ImportError("4-bit needs bitsandbytes: `pip install -U bitsandbytes>=0.46.1`"))
    'pip install bitsandbytes'
    """
    command = _COMMAND.search(str(error))
    package = command[1] if command else getattr(error, "name", None)  # the latter of a ModuleNotFoundError
    package = f"'{package}'" if package and "[" in package else package  # which shells take for a pattern
    return f"pip install {package}" if package else "install what it names and try again"


# Files of weights, settings and words; others in the folder are not what a model is loaded from.
_READ = re.compile(r"(model|adapter_model)\b.*\.safetensors|.*(config|token|vocab|index|tekken).*\.json")


def broken_file(origin: Origin) -> str:
    """A clause on the first file of weights or of the tokenizer that can't be read: name and why; or ""."""
    if origin.gguf or not origin.local:
        return ""
    for path in sorted(path for path in Path(origin.path).glob("*") if _READ.fullmatch(path.name)):
        try:
            if path.suffix == ".safetensors":
                with safe_open(path, "pt"):
                    pass
            else:
                json.loads(path.read_text("utf-8"))
        except (SafetensorError, OSError, ValueError, RecursionError) as error:
            return f"{path.name} is broken or cut short ({reason(error)})"
    return ""
