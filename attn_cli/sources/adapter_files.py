"""The files of an adapter (LoRA and its kin, as peft saves them): the base model that it changes."""

from pathlib import Path

from attn_cli.errors import AttnError, LoadError
from attn_cli.kept.model_files import model_state
from attn_cli.sources.files.json_document import read_json_document

ADAPTER_FILE = "adapter_config.json"


def is_adapter(folder: Path) -> bool:
    """True for a folder that holds an adapter and no model of its own."""
    return (folder / ADAPTER_FILE).is_file() and not (folder / "config.json").is_file()


def base_of(folder: Path, name: str) -> str:
    """The base model that an adapter in `folder`, called `name`, names: a folder, or an id on the hub.

    A relative path that leads nowhere from the current folder is tried from the adapter's. Raises LoadError for a file
    that can't be read or names no base.
    """
    label = f"{name}: {ADAPTER_FILE}"
    document = read_json_document(folder / ADAPTER_FILE, label, LoadError, "is the download complete?")
    base = document.get("base_model_name_or_path") if isinstance(document, dict) else None
    if not isinstance(base, str) or not base:
        raise LoadError(f"{label} names no base model", "add base_model_name_or_path, a folder or an id on the hub")
    beside = folder / base
    return str(beside) if not Path(base).expanduser().exists() and beside.is_dir() else base


def state_with_base(model: str, revision: str | None) -> list[object] | None:
    """The state of a model's files as of `model_state`, with its base's for an adapter; None for an unknown one."""
    own = model_state(model, revision)
    try:
        folder = Path(model).expanduser()
        if own is None or not is_adapter(folder):
            return own
        base = model_state(base_of(folder, model), revision)
    except (OSError, RuntimeError, AttnError):
        return None
    return None if base is None else [*own, *base]
