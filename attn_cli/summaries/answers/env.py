"""attn env: versions, devices, extras, cached models, variables and the terminal of this installation."""

import os
import platform
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from attn_cli._version import __version__
from attn_cli.kernel.cpu.library import VECTORS, is_built, is_unfit, widest_vectors
from attn_cli.summaries.answer import Answer, Next, Shape, Table

PACKAGES = ("torch", "transformers", "numpy", "typer", "rich")
EXTRAS = {
    "gguf": ("gguf", "accelerate"),
    "image": ("pillow",),
    "audio": ("soxr",),
    "adapters": ("peft",),
    "explore": ("textual",),
    "figure": ("matplotlib",),
    "scan": ("pyarrow",),
    "scan-ray": ("ray", "pyarrow"),
}
HEEDED = re.compile(  # variables that attn or a library under it reads
    r"(ATTN|HF|HUGGING_FACE|TRANSFORMERS|TQDM|CUDA|OMP|MKL|RAY|LC|XDG_CACHE|DISABLE_SAFETENSORS)_.*|(CLI|NO_|FORCE_)COLOR.*"
    r"|COLOR.*|TERM|COLUMNS|LANG|PYTHONIOENCODING|VISUAL|EDITOR|PAGER|LESS|HTTPS?_PROXY",
    re.IGNORECASE,
)
SECRET = re.compile("TOKEN|ENDPOINT|PROXY|KEY|PASS", re.IGNORECASE)  # of these it is told only that they are set

_TABLES = {
    "facts": ("fact", "value"),
    "packages": ("package", "version"),
    "devices": ("device", "name", "cores", "threads", "bytes"),
    "extras": ("extra", "install"),
    "variables": ("variable", "value"),
    "models": ("model", "bytes"),
}
SHAPE = Shape("attn.env/4", "What is installed here. input is empty.", _TABLES, screen=_TABLES)


def installation(
    devices: Sequence[Mapping[str, Any]], cache: tuple[str | None, Mapping[str, int], int], stdout: str
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
    heeded = {name: value for name, value in os.environ.items() if HEEDED.fullmatch(name)}
    heeded |= {name: "set" for name in heeded if SECRET.search(name)}
    tables = {
        "facts": Table.of({"fact": name, "value": value} for name, value in facts.items()),
        "packages": Table.of({"package": name, "version": _version(name)} for name in PACKAGES),
        "devices": Table.of(devices),
        "extras": Table.of(
            {"extra": extra, "install": "installed" if all(map(_version, of)) else f"pip install 'attn-cli[{extra}]'"}
            for extra, of in EXTRAS.items()
        ),
        "variables": Table.of({"variable": name, "value": value} for name, value in sorted(heeded.items())),
        "models": Table.of({"model": name, "bytes": size} for name, size in models.items()),
    }
    return Answer(SHAPE, (), tables, next=Next("inspect", ("he sat on the river bank",)))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
