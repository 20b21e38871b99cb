"""attn env: versions, devices, extras, cached models, variables and the terminal of this installation."""

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from attn_cli._version import __version__
from attn_cli.fields import COUNT, FLAG, TEXT, Field, Object, Output, Rows, each, or_none
from attn_cli.kernel.cpu.c_library import VECTORS, is_built, is_unfit, widest_vectors
from attn_cli.summaries.report import Answer

PACKAGES = ("torch", "transformers", "numpy", "typer", "rich")
EXTRAS = {
    "gguf": ("gguf", "accelerate"), "image": ("pillow",), "audio": ("soxr",), "adapters": ("peft",),
    "explore": ("textual",), "figure": ("resvg-py", "svg2pdf-py"), "scan": ("datasketches", "pyarrow"),
    "scan-ray": ("ray", "datasketches", "pyarrow"),
}  # fmt: skip
# Variables whose value is told ...
TOLD = (
    "ATTN_MODEL", "ATTN_DEVICE", "ATTN_DTYPE", "ATTN_COLOR", "ATTN_COLOR_SCALE", "ATTN_QUIET",
    "ATTN_DEBUG", "ATTN_CACHE", "ATTN_CACHE_SIZE", "XDG_CACHE_HOME",
    "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLORTERM", "COLORFGBG", "TERM", "COLUMNS",
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
    """Standard output as attn sees it."""

    terminal: bool
    width: int
    depth: str
    encoding: str | None
    ascii_only: bool


_PACKAGE = (
    Field("name", TEXT, "as pip knows it", itemgetter(0)),
    Field("version", or_none(TEXT), "null for one that is missing", itemgetter(1)),
)
_DEVICE = (
    Field("device", TEXT, "what --device takes", itemgetter("device")),
    Field("name", TEXT, "the maker's name; of the CPU also the instructions of torch, if asked", itemgetter("name")),
    Field(
        "cores", or_none({"type": "integer", "minimum": 1}), "of the CPU, how many attn may use", itemgetter("cores")
    ),
    Field(
        "threads",
        or_none({"type": "integer", "minimum": 1}),
        "of the CPU, how many torch uses, if asked",
        itemgetter("threads"),
    ),
    Field("bytes", or_none(COUNT), "memory of a CUDA device", itemgetter("bytes")),
)
_EXTRA = (
    Field("name", TEXT, "gguf, image or audio", itemgetter(0)),
    Field("missing", each(TEXT), "packages that are not installed", lambda extra: list(extra[1])),
    Field(
        "install",
        or_none(TEXT),
        "the command that installs them; null if none is missing",
        lambda extra: install_line(extra[0]) if extra[1] else None,
    ),
)
_MODEL = (
    Field("name", TEXT, "what --model takes", itemgetter(0)),
    Field("bytes", COUNT, "on disk, of all its revisions", itemgetter(1)),
)
_CACHE = (
    Field("folder", or_none(TEXT), "null where huggingface_hub can't be imported", "cache"),
    Field("models", Rows(_MODEL), value=lambda here: here.models.items()),
    Field("broken", COUNT, "entries that can't be read"),
)
_KEPT = (
    Field("folder", or_none(TEXT), "null where none are kept", lambda here: here.kept.folder),
    Field("runs", COUNT, "how many", lambda here: here.kept.runs),
    Field("bytes", COUNT, "that they take", lambda here: here.kept.bytes),
    Field(
        "most",
        COUNT,
        "bytes that they may take, and models as many; the least recently used go",
        lambda here: here.kept.most,
    ),
    Field(
        "models",
        COUNT,
        "how many models of .gguf files are kept unpacked, beside the folder of runs",
        lambda here: here.kept.models,
    ),
    Field("unpacked_bytes", COUNT, "that these take", lambda here: here.kept.unpacked_bytes),
)
_VARIABLE = (
    Field("name", TEXT, value=itemgetter(0)),
    Field("value", or_none(TEXT), "null where it may hold a password", itemgetter(1)),
)
_STDOUT = (
    Field("terminal", FLAG, "whether it is one"),
    Field("width", {"type": "integer", "minimum": 1}, "columns of a screen"),
    Field("depth", {"enum": ["truecolor", "256", "16", "none"]}, "colours of a screen"),
    Field("encoding", or_none(TEXT), "null where it doesn't say"),
    Field("ascii_only", FLAG, "whether other characters are replaced"),
)
FIELDS = (
    Field("python", TEXT, "the version of Python"),
    Field("platform", TEXT, "the system and its processor, as Python names them"),
    Field("compiled_kernel", or_none(TEXT),
          "the vectors that the compiled kernel uses; null where no C compiler was at hand at installation"),
    Field("unusable_kernel", FLAG,
          "whether compiled code is there that can't be used: of another version, or of another system"),
    Field("packages", Rows(_PACKAGE), "libraries that attn needs", lambda here: here.packages.items()),
    Field("devices", Rows(_DEVICE),
          "where models can run, first the one that --device auto takes; empty where torch can't be imported"),
    Field("extras", Rows(_EXTRA), "what attn can be installed with", lambda here: here.extras.items()),
    Field("cache", Object(_CACHE), "the models that were downloaded from the hub", lambda here: here),
    Field("kept", Object(_KEPT), "runs of models that are kept for a second look", lambda here: here),
    Field("variables", Rows(_VARIABLE), "the environment variables that are set and that attn or its libraries heed",
          lambda here: here.variables.items()),
    Field("stdout", Object(_STDOUT), "standard output as attn sees it"),
)  # fmt: skip
OUTPUT = Output("attn.env/2", "What is installed here. input is empty.", FIELDS)


@dataclass(frozen=True)
class KeptRuns:
    """What is kept for a second look: finished runs, and models unpacked from .gguf; folder None where nothing is."""

    folder: str | None = None
    runs: int = 0
    bytes: int = 0
    most: int = 0
    models: int = 0
    unpacked_bytes: int = 0


@dataclass(frozen=True, eq=False)
class Installation(Answer):
    """The installation that attn runs on; None stands for what is missing, or isn't told."""

    name: ClassVar[str] = "env"
    fields: ClassVar[Sequence[Field]] = FIELDS

    python: str
    platform: str
    compiled_kernel: str | None
    packages: Mapping[str, str | None]
    devices: Sequence[Row]
    extras: Mapping[str, tuple[str, ...]]
    cache: str | None
    models: Mapping[str, int]
    broken: int
    variables: Mapping[str, str | None]
    stdout: OutputStream
    unusable_kernel: bool = False
    kept: KeptRuns = KeptRuns()

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per fact: kind, name and value; "set" for a variable whose value isn't told."""
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
        pairs += [("kept", name, value) for name, value in vars(self.kept).items()]
        pairs += [("model", name, size) for name, size in self.models.items()]
        pairs += [("variable", name, "set" if value is None else value) for name, value in self.variables.items()]
        pairs += [("stdout", name, value) for name, value in vars(self.stdout).items()]
        yield from ({"kind": kind, "name": name, "value": value} for kind, name, value in pairs)

    def arrays(self) -> dict[str, np.ndarray]:
        """`kinds`, `names` and `values` of N facts, one a row of `records`, as text `[N]`; "" for None."""
        rows = list(self.records())
        return {
            f"{field}s": np.array(["" if row[field] is None else str(row[field]) for row in rows])
            for field in ("kind", "name", "value")
        }


def installation(
    devices: Sequence[Row],
    cache: tuple[str | None, Mapping[str, int], int],
    stdout: OutputStream,
    kept: KeptRuns,
) -> Installation:
    """The installation, by what Python itself knows; torch is not imported."""
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
        variables=_variables(),
        unusable_kernel=is_unfit(),
        stdout=stdout,
        kept=kept,
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
    values: dict[str, str | None] = {name: os.environ[name] for name in TOLD if name in os.environ}
    return values | {name: None for name in UNTOLD if name in os.environ}
