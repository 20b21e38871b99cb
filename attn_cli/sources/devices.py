"""The devices and number types that models are loaded with, as far as they are known without torch."""

import platform
import re
import sys
from contextlib import suppress
from pathlib import Path

from attn_cli.errors import InputError
from attn_cli.kernel.bands.threads import available_cores

DeviceRow = dict[str, str | int | None]
_DRIVERS = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/kfd", "/dev/dxg")  # NVIDIA's, AMD's, those of WSL

_SHORT = {"fp32": "float32", "fp16": "float16", "half": "float16", "bf16": "bfloat16"}
DTYPES = {name: name for name in ("auto", "float32", "float16", "bfloat16")} | _SHORT
_DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d{1,4})?")


def may_have_accelerator() -> bool:
    """False on Linux without a driver of a graphics card, else True; where False, torch need not be asked for GPUs."""
    return not sys.platform.startswith("linux") or any(Path(driver).exists() for driver in _DRIVERS)


def cpu_row(more: str = "", threads: int | None = None) -> DeviceRow:
    """The CPU, with the cores that this process may use, as a row of the list that `attn env` prints."""
    name = platform.processor() or platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    return {"device": "cpu", "name": f"{name}{more}", "cores": available_cores(), "threads": threads, "bytes": None}


def check_names(device: str, dtype: str) -> None:
    """Raise InputError for a name that is no device's, or no dtype's; whether the device is there is asked later."""
    if not _DEVICE.fullmatch(device):
        raise InputError(f"no device {device!r}", "auto, cpu, cuda, cuda:1 or mps: attn env lists those that are here")
    if dtype not in DTYPES:
        raise InputError(f"unknown dtype {dtype!r}", f"one of {', '.join(DTYPES)}")
