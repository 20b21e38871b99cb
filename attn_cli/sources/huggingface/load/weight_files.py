"""The files of a model on this machine, looked at without reading them."""

from pathlib import Path

_WEIGHTS = ("*.safetensors", "*.bin")  # of two kinds at once, the first is loaded


def size_on_disk(model: str) -> int:
    """The bytes of the weights of a model folder or .gguf file; 0 for what is not on this machine."""
    try:
        path = Path(model).expanduser()
        if path.is_file():
            return path.stat().st_size
        for pattern in _WEIGHTS:
            if size := sum(file.stat().st_size for file in path.glob(pattern)):
                return size
    except (OSError, ValueError, RuntimeError):  # nobody may look; a NUL in the name; an unknown home folder
        pass
    return 0
