"""The files of an adapter (LoRA and its kin, as peft saves them): the base model that it changes."""

from pathlib import Path

from attn_cli.errors import LoadError
from attn_cli.kept.model_files import snapshot
from attn_cli.sources.files.json_document import read_json_document

ADAPTER_FILE = "adapter_config.json"


def adapter_folder(name: str) -> Path | None:
    """The folder of an adapter (LoRA and the like): `name` itself, or its place in the hub's cache."""
    try:
        path = Path(name).expanduser()
        folder = path if path.exists() else snapshot(name)
        is_adapter = folder is not None and (folder / ADAPTER_FILE).is_file() and not (folder / "config.json").is_file()
    except (OSError, RuntimeError, ValueError):
        return None
    return folder if is_adapter else None


def base_of(folder: Path, name: str) -> str:
    """The base model that an adapter in `folder`, called `name`, names: a folder, or an id on the hub."""
    label = f"{name}: {ADAPTER_FILE}"
    document = read_json_document(folder / ADAPTER_FILE, label, LoadError, "is the download complete?")
    base = document.get("base_model_name_or_path") if isinstance(document, dict) else None
    if not isinstance(base, str) or not base:
        raise LoadError(f"{label} names no base model", "add base_model_name_or_path, a folder or an id on the hub")
    beside = folder / base
    return str(beside) if not Path(base).expanduser().exists() and beside.is_dir() else base
