"""The sizes of a model's weight files, known without torch and without reading them."""

from pathlib import Path

# The names that transformers looks for, in this order; further files may be copies in another format.
_NAMES = ("model.safetensors", "model-*.safetensors", "pytorch_model.bin", "pytorch_model-*.bin")


def weight_bytes(model: Path) -> int:
    """The bytes of a .gguf file, or of the weights in a model's folder; 0 where there are none to be seen."""
    try:
        if model.is_file():
            return model.stat().st_size
        files = next((files for name in _NAMES if (files := [*model.glob(name)])), [])
        return sum(file.stat().st_size for file in files)
    except (OSError, ValueError):  # no permission, a link to nothing, or a null byte in the name
        return 0
