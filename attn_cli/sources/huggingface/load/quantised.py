"""Models with quantised weights: the library that quantised them, and whether it is installed."""

from importlib.util import find_spec
from typing import Any

from attn_cli.errors import LoadError

# The packages that transformers loads such a model with, by the quant_method of config.json, as they are imported.
_PACKAGES = {
    "aqlm": ("aqlm", "accelerate"),
    "auto-round": ("auto_round",),
    "awq": ("gptqmodel", "accelerate"),
    "bitnet": ("accelerate",),
    "bitsandbytes": ("bitsandbytes", "accelerate"),
    "compressed-tensors": ("compressed_tensors",),
    "fp8": ("accelerate",),
    "gptq": ("gptqmodel", "optimum"),
    "hqq": ("hqq",),
    "mxfp4": ("accelerate",),
    "quanto": ("optimum.quanto", "accelerate"),
    "quark": ("quark",),
    "torchao": ("torchao",),
    "vptq": ("vptq", "accelerate"),
}
# The names by which pip installs them, where these differ.
_PIP = {
    "auto_round": "auto-round",
    "compressed_tensors": "compressed-tensors",
    "optimum.quanto": "optimum-quanto",
    "quark": "amd-quark",
}
# The loggers under which these libraries write to stderr.
LOGGERS = ("bitsandbytes", "gptqmodel", "optimum", "torchao", "compressed_tensors", "auto_round")


def check_packages(name: str, config: dict[str, Any]) -> None:
    """Raise LoadError for the model `name` where a package that unpacks its weights is missing.

    config  the object `quantization_config` of a config.json; a method that is unknown here passes
    """
    method = method_of(config)
    missing = [_PIP.get(package, package) for package in _PACKAGES.get(method, ()) if not _is_there(package)]
    if missing:
        raise LoadError(
            f"{name} is quantised ({method}) and needs {' and '.join(missing)}, not installed here",
            f"pip install {' '.join(missing)}",
        )


def method_of(config: dict[str, Any]) -> str:
    """The method of a quantization_config by its name in lower case; "" for none.

    bitsandbytes for its older files, which don't name it.

    >>> method_of({"load_in_4bit": True}), method_of({"quant_method": "AWQ"})
    ('bitsandbytes', 'awq')
    """
    method = config.get("quant_method")
    method = getattr(method, "value", method)  # transformers may have replaced the name by an enum member
    if method is None and (config.get("load_in_4bit") or config.get("load_in_8bit")):
        return "bitsandbytes"
    return str(method or "").lower()


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of the package around it
        return False
