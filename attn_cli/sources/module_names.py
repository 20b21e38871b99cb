"""Names of modules of other libraries, as `--model` takes them: timm:NAME, open_clip:NAME, package.module:factory."""

import re
from pathlib import Path
from typing import NamedTuple

_FACTORY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class ModuleName(NamedTuple):
    """The name of a torch module: `wanted` is a model of timm or open_clip, or a function of a Python module."""

    package: str
    wanted: str

    @property
    def is_of_library(self) -> bool:
        """True for a model that timm or open_clip knows by name; False for a function of a Python module."""
        return self.package in ("timm", "open_clip")


def module_name(model: str) -> ModuleName | None:
    """The library and model, or Python module and function, that a `--model` value such as timm:NAME names.

    >>> tuple(module_name("timm:vit_tiny_patch16_224.augreg")), tuple(module_name("nets.mine:build"))
    (('timm', 'vit_tiny_patch16_224.augreg'), ('nets.mine', 'build'))
    >>> module_name("gpt2") or module_name("toy:bank") or module_name("C:/model")
    """
    package, colon, wanted = model.partition(":")
    if not colon or not wanted or package == "toy" or Path(model).exists():
        return None
    name = ModuleName(package, wanted)
    return name if name.is_of_library or _FACTORY.fullmatch(model) else None
