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


def may_have_accelerator() -> bool:
    """False on Linux without a driver of a graphics card, else True; where False, torch need not be asked for GPUs."""
    return not sys.platform.startswith("linux") or any(Path(driver).exists() for driver in _DRIVERS)


def device_row(
    device: str, name: str, cores: int | None = None, threads: int | None = None, memory: int | None = None
) -> DeviceRow:
    """A device as a row of the list that `attn env` prints."""
    return {"device": device, "name": name, "cores": cores, "threads": threads, "bytes": memory}


def cpu_row(name: str = "", threads: int | None = None) -> DeviceRow:
    """The CPU, with the cores that this process may use, as a row of the list that `attn env` prints."""
    return device_row("cpu", f"{_cpu_name()}{name}", cores=available_cores(), threads=threads)


def _cpu_name() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def check_names(device: str, dtype: str) -> None:
    """Raise InputError for a name that is no device's, or no dtype's; whether the device is there is asked later."""
    if not _DEVICE.fullmatch(device):
        raise InputError(f"no device {device!r}", "auto, cpu, cuda, cuda:1 or mps; attn env lists those that are here")
    if dtype not in DTYPES:
        raise InputError(f"unknown dtype {dtype!r}", f"one of {', '.join(DTYPES)}")
