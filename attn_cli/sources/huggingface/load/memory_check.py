"""Whether a model's weights fit into the memory that is free, by the sizes of its files."""

from pathlib import Path

from attn_cli.errors import LimitError
from attn_cli.sources.huggingface.load.origin import Origin
from attn_cli.sources.memory import free_memory
from attn_cli.text import decimal_bytes


def check_memory(origin: Origin, folder: Path) -> None:
    """Refuse weights whose files are larger than the free memory, since the system would kill the process.

    folder  the folder of the weights; one without weight files passes

    Raises LimitError, which names both sizes.
    """
    size, free = weight_bytes(origin, folder), free_memory(swap=True)
    if free is not None and size > free:
        sizes = f"{decimal_bytes(size, 'GB')}, and {decimal_bytes(free, 'GB')}"
        raise LimitError(
            f"the weights of {origin.name} take {sizes} are free",
            "a smaller model, a quantised one, or --device-map auto",
        )


def weight_bytes(origin: Origin, folder: Path) -> int:
    """The bytes of the weight files of `origin` in `folder`; 0 where there are none."""
    files = [folder / origin.gguf] if origin.gguf else _weight_files(folder)
    return sum(file.stat().st_size for file in files)


def _weight_files(folder: Path) -> list[Path]:
    """The weight files in a model's folder that transformers reads; others may be copies in another format."""
    kinds = ("model.safetensors", "model-*.safetensors", "pytorch_model.bin", "pytorch_model-*.bin")
    return next((files for kind in kinds if (files := sorted(folder.glob(kind)))), [])
