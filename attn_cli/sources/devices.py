"""The names of devices and number types that models are loaded with, known without torch."""

import re

from attn_cli.errors import InputError

DTYPES = {
    "auto": "auto",
    "float32": "float32",
    "fp32": "float32",
    "float16": "float16",
    "fp16": "float16",
    "half": "float16",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
}
_DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d{1,4})?")


def check_names(device: str, dtype: str) -> None:
    """InputError for a name that is no device's, or no number type's; whether the device is there is asked later."""
    if not _DEVICE.fullmatch(device):
        raise InputError(f"no device {device!r}", "auto, cpu, cuda, cuda:1 or mps; attn env lists those that are here")
    if dtype not in DTYPES:
        raise InputError(f"unknown dtype {dtype!r}", f"one of {', '.join(DTYPES)}")
