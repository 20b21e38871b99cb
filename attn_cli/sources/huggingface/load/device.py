"""The device and the number type that a user names, as torch's, and the devices that are there."""

import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from attn_cli.errors import InputError
from attn_cli.kernel.bands.threads import available_cores
from attn_cli.sources.devices import DTYPES


def dtype_of(name: str) -> Any:
    """The torch dtype behind one of the names in DTYPES; "auto" as it is, which leaves the choice to the checkpoint."""
    full_name = DTYPES[name]
    return full_name if full_name == "auto" else getattr(torch, full_name)


def device_of(name: str) -> torch.device:
    """The device of that name; "auto" is the first of cuda, mps, cpu that is there.

    Raises InputError for a device that isn't there.
    """
    counts = {
        "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0,
        "mps": int(torch.backends.mps.is_available()),
        "cpu": 1,
    }
    available = [kind for kind, count in counts.items() if count]
    if name == "auto":
        return torch.device(available[0])
    kind, _, number = name.partition(":")
    if kind not in available or not (number or "0").isdecimal() or int(number or 0) >= counts[kind]:
        devices = [f"{kind}:{i}" if kind == "cuda" else kind for kind in available for i in range(counts[kind])]
        raise InputError(f"no device {name!r} here", f"available: {', '.join(devices)}")
    return torch.device(name)


def devices() -> list[dict[str, str | int | None]]:
    """The devices that are there, the one that "auto" takes first.

    device   what --device takes
    name     the maker's
    cores    of the CPU, how many this process may use; None for others
    threads  of the CPU, how many torch computes with; None for others
    bytes    of memory, for CUDA; None for others
    """
    rows: list[dict[str, str | int | None]] = []
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        properties = torch.cuda.get_device_properties(number)
        rows.append(_device(f"cuda:{number}", properties.name, memory=properties.total_memory))
    if torch.backends.mps.is_available():
        rows.append(_device("mps", "Apple GPU"))
    name = f"{_cpu_name()}, {torch.backends.cpu.get_cpu_capability()}"
    return [*rows, _device("cpu", name, cores=available_cores(), threads=torch.get_num_threads())]


def _device(
    device: str, name: str, cores: int | None = None, threads: int | None = None, memory: int | None = None
) -> dict[str, str | int | None]:
    return {"device": device, "name": name, "cores": cores, "threads": threads, "bytes": memory}


def _cpu_name() -> str:
    """The model that Linux tells, else the kind of processor."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
