"""Broken copies of a model folder, made without copying the weights where they stay whole."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file


def hard_link(source: Path, target: Path) -> None:
    """The same file under another name; a copy where it lies on another disk. Models' folders may hold no others."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def linked(source: Path, target: Path, *, without: tuple[str, ...] = ()) -> Path:
    """A folder of hard links to the files of `source`, or of copies on another disk, less some."""
    target.mkdir()
    for file in source.iterdir():
        if file.is_file() and file.name not in without:
            hard_link(file, target / file.name)
    return target


def replaced(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.unlink(missing_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def edited_config(folder: Path, **changes: Any) -> Path:
    config = json.loads((folder / "config.json").read_text())
    return replaced(folder, "config.json", json.dumps(config | changes))


def edited_weights(folder: Path, edit: Callable[[dict[str, Any]], object]) -> Path:
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    (folder / "model.safetensors").unlink()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
