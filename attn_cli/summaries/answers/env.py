"""attn env: versions, devices, extras, cached models, variables and the terminal of this installation."""

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from attn_cli._version import __version__
from attn_cli.kernel.cpu.c_library import VECTORS, is_built, is_unfit, widest_vectors
from attn_cli.summaries.answer import Answer, Next, Shape, Table

PACKAGES = ("torch", "transformers", "numpy", "typer", "rich")
EXTRAS = {
    "gguf": ("gguf", "accelerate"), "image": ("pillow",), "audio": ("soxr",), "adapters": ("peft",),
    "explore": ("textual",), "figure": ("resvg-py", "svg2pdf-py"), "scan": ("pyarrow",),
    "scan-ray": ("ray", "pyarrow"),
}  # fmt: skip
# Variables whose value is told ...
TOLD = (
    "ATTN_MODEL", "ATTN_DEVICE", "ATTN_DTYPE", "ATTN_COLOR_SCALE", "ATTN_QUIET",
    "ATTN_DEBUG", "ATTN_CACHE", "XDG_CACHE_HOME",
    "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLORTERM", "COLORFGBG", "TERM", "COLUMNS",
    "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_HUB_ETAG_TIMEOUT", "HF_HUB_DOWNLOAD_TIMEOUT",
    "TRANSFORMERS_OFFLINE", "TQDM_DISABLE",
    "DISABLE_SAFETENSORS_CONVERSION", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "VISUAL", "EDITOR", "PAGER", "LESS", "RAY_DEDUP_LOGS_SKIP_REGEX", "PYTHONIOENCODING", "LC_ALL", "LANG",
)  # fmt: skip
# ... and those that may hold a password, of which only that they are set.
UNTOLD = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")

_TABLES = {
    "facts": ("fact", "value"),
    "packages": ("package", "version"),
    "devices": ("device", "name", "cores", "threads", "bytes"),
    "extras": ("extra", "missing", "install"),
    "variables": ("variable", "value"),
    "models": ("model", "bytes"),
    "unpacked": ("unpacked", "bytes", "folder"),
}
SHAPE = Shape(
    "attn.env/3", "What is installed here. input is empty.", _TABLES, screen=_TABLES | {"extras": ("extra", "install")}
)


def installation(
    devices: Sequence[Mapping[str, Any]],
    cache: tuple[str | None, Mapping[str, int], int],
    unpacked: Sequence[Mapping[str, Any]],
    stdout: str,
) -> Answer:
    """The installation, by what Python itself knows, and given rows on devices and caches; torch isn't imported."""
    folder, models, broken = cache
    kernel = VECTORS[widest_vectors()] if is_built() else "none: attn guide costs"
    facts = {
        "attn": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "compiled kernel": "of another version: install attn again" if is_unfit() else kernel,
        "output": stdout,
        "cache": "unknown" if folder is None else folder,
        **({"broken in cache": str(broken)} if broken else {}),
    }
    lacking = {extra: [name for name in names if _version(name) is None] for extra, names in EXTRAS.items()}
    tables = {
        "facts": Table.of({"fact": name, "value": value} for name, value in facts.items()),
        "packages": Table.of({"package": name, "version": _version(name)} for name in PACKAGES),
        "devices": Table.of(devices),
        "extras": Table.of(
            {"extra": extra, "missing": ", ".join(names), "install": install_line(extra) if names else "installed"}
            for extra, names in lacking.items()
        ),
        "variables": Table.of(
            {"variable": name, "value": os.environ[name] if name in TOLD else "set"}
            for name in (*TOLD, *UNTOLD)
            if name in os.environ
        ),
        "models": Table.of({"model": name, "bytes": size} for name, size in models.items()),
        "unpacked": Table.of(unpacked),
    }
    return Answer(SHAPE, (), tables, next=Next("inspect", ("he sat on the river bank",)))


def install_line(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'attn-cli[{extra}]'"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
