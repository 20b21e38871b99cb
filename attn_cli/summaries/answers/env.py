"""attn env: versions, devices, extras, cached models, variables and the terminal of this installation."""

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

import numpy as np

from attn_cli._version import __version__
from attn_cli.kernel.walk.c_library import VECTORS, is_built, is_unfit, widest_vectors
from attn_cli.summaries.report import Answer

PACKAGES = ("torch", "transformers", "numpy", "typer", "rich")
EXTRAS = {
    "gguf": ("gguf", "accelerate"), "image": ("pillow",), "audio": ("soxr",), "explore": ("textual",),
    "figure": ("resvg-py", "svg2pdf-py"), "scan": ("datasketches", "pyarrow"),
    "scan-ray": ("ray", "datasketches", "pyarrow"),
}  # fmt: skip
# Variables whose value is told ...
TOLD = (
    "ATTN_DEBUG", "ATTN_HUB_TIMEOUT", "ATTN_CONFIG", "XDG_CONFIG_HOME", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE",
    "COLORTERM", "COLORFGBG", "TERM", "COLUMNS",
    "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_HUB_ETAG_TIMEOUT", "HF_HUB_DOWNLOAD_TIMEOUT",
    "TRANSFORMERS_OFFLINE", "TQDM_DISABLE",
    "DISABLE_SAFETENSORS_CONVERSION", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "VISUAL", "EDITOR", "PAGER", "LESS", "RAY_DEDUP_LOGS_SKIP_REGEX", "PYTHONIOENCODING", "LC_ALL", "LANG",
)  # fmt: skip
# ... and those that may hold a password, of which only that they are set.
UNTOLD = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")

Row = Mapping[str, str | int | None]


@dataclass(frozen=True)
class OutputStream:
    """Standard output as attn sees it.

    terminal    whether it is one
    width       columns that a screen may take
    depth       colours: truecolor, 256, 16 or none
    encoding    of its characters; None where it doesn't say
    ascii_only  whether other characters are replaced
    """

    terminal: bool
    width: int
    depth: str
    encoding: str | None
    ascii_only: bool


@dataclass(frozen=True, eq=False)
class Installation(Answer):
    """What runs attn here.

    compiled_kernel  the vectors that the compiled kernel uses; None where it wasn't built, or is unfit
    unusable_kernel     whether compiled code is there that can't be used: of another version, or of another system
    packages       versions by package; None for one that is missing
    devices        device, name, cores, threads, bytes of each; empty where torch could not be asked
    extras         by extra the packages that it lacks
    cache          the folder of the Hugging Face cache; None where its library could not be asked
    models         bytes on disk by model in it
    broken         how many entries of the cache can't be read
    settings       name, value and origin (a variable or the file) of every default that is set
    config         the file of settings, whether it is there or not
    variables      values by name of those that are set; None for a value that isn't told
    """

    name: ClassVar[str] = "env"

    python: str
    platform: str
    compiled_kernel: str | None
    packages: Mapping[str, str | None]
    devices: Sequence[Row]
    extras: Mapping[str, tuple[str, ...]]
    cache: str | None
    models: Mapping[str, int]
    broken: int
    settings: Sequence[Row]
    config: str
    variables: Mapping[str, str | None]
    stdout: OutputStream
    unusable_kernel: bool = False

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per fact: its kind, its name, its value; of a variable whose value isn't told that it is set."""
        pairs: list[tuple[str, str, Any]] = [
            ("version", "attn", __version__),
            ("version", "python", self.python),
            ("platform", "platform", self.platform),
            ("build", "compiled kernel", "unfit" if self.unusable_kernel else self.compiled_kernel),
        ]
        pairs += [("version", name, number) for name, number in self.packages.items()]
        pairs += [("device", str(row["device"]), row["name"]) for row in self.devices]
        pairs += [("extra", name, install_line(name) if lacks else "installed") for name, lacks in self.extras.items()]
        pairs += [("cache", "folder", self.cache), ("cache", "broken", self.broken)]
        pairs += [("model", name, size) for name, size in self.models.items()]
        pairs += [("setting", str(row["name"]), f"{row['value']} ({row['origin']})") for row in self.settings]
        pairs += [("config", "file", self.config)]
        pairs += [("variable", name, "set" if value is None else value) for name, value in self.variables.items()]
        pairs += [("stdout", name, value) for name, value in vars(self.stdout).items()]
        yield from ({"kind": kind, "name": name, "value": value} for kind, name, value in pairs)

    def document(self) -> dict[str, Any]:
        """Everything by kind."""
        return {
            "python": self.python,
            "platform": self.platform,
            "compiled_kernel": self.compiled_kernel,
            "unusable_kernel": self.unusable_kernel,
            "packages": [{"name": name, "version": number} for name, number in self.packages.items()],
            "devices": [dict(row) for row in self.devices],
            "extras": [
                {"name": name, "missing": list(lacks), "install": install_line(name) if lacks else None}
                for name, lacks in self.extras.items()
            ],
            "cache": {
                "folder": self.cache,
                "models": [{"name": name, "bytes": size} for name, size in self.models.items()],
                "broken": self.broken,
            },
            "settings": [dict(row) for row in self.settings],
            "config": self.config,
            "variables": [{"name": name, "value": value} for name, value in self.variables.items()],
            "stdout": dict(vars(self.stdout)),
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """The columns of the rows, as text; what is None is ""."""
        rows = list(self.records())
        return {
            f"{field}s": np.array(["" if row[field] is None else str(row[field]) for row in rows])
            for field in ("kind", "name", "value")
        }


def installation(
    devices: Sequence[Row],
    cache: tuple[str | None, Mapping[str, int], int],
    settings: tuple[Sequence[Row], str],
    stdout: OutputStream,
) -> Installation:
    """What was found, with what Python itself knows; torch is not imported.

    cache     the folder, the bytes by model, and how many entries are broken
    settings  the rows of settings, and their file
    """
    folder, models, broken = cache
    return Installation(
        python=platform.python_version(),
        platform=platform.platform(),
        compiled_kernel=VECTORS[widest_vectors()] if is_built() else None,
        packages={name: _version(name) for name in PACKAGES},
        devices=devices,
        extras={extra: tuple(name for name in names if _version(name) is None) for extra, names in EXTRAS.items()},
        cache=folder,
        models=models,
        broken=broken,
        settings=settings[0],
        config=settings[1],
        variables=_variables(),
        unusable_kernel=is_unfit(),
        stdout=stdout,
    )


def install_line(extra: str) -> str:
    """The command that installs an extra.

    >>> install_line("gguf")
    "pip install 'attn-cli[gguf]'"
    """
    return f"pip install 'attn-cli[{extra}]'"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _variables() -> dict[str, str | None]:
    """The variables that are set and that attn or its libraries heed."""
    values: dict[str, str | None] = {name: os.environ[name] for name in TOLD if name in os.environ}
    return values | {name: None for name in UNTOLD if name in os.environ}
