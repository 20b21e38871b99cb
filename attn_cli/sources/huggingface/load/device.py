"""The device and the number type that a user names, as torch's, and the devices that are there."""

from typing import Any

import torch

from attn_cli.errors import InputError
from attn_cli.sources.devices import DTYPES, DeviceRow, cpu_row


def dtype_of(name: str) -> Any:
    """The torch dtype of a name that --dtype takes: float32, float16, bfloat16, or a short name such as bf16."""
    full_name = DTYPES[name]
    return full_name if full_name == "auto" else getattr(torch, full_name)


def device_of(name: str) -> torch.device:
    """The device of that name; "auto" is the first that is there."""
    here = [str(row["device"]) for row in devices()]
    kinds = [device.partition(":")[0] for device in here]
    if name not in ("auto", *kinds, *here):
        raise InputError(f"no device {name!r} here", f"available: {', '.join(here)}")
    return torch.device(here[0] if name == "auto" else name)


def devices() -> list[DeviceRow]:
    """The devices that are there, with name and CUDA memory; the first is what auto takes."""
    rows: list[DeviceRow] = []
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        properties = torch.cuda.get_device_properties(number)
        rows.append({"device": f"cuda:{number}", "name": properties.name, "bytes": properties.total_memory})
    if torch.backends.mps.is_available():
        rows.append({"device": "mps", "name": "Apple GPU"})
    return [*rows, cpu_row(f", {torch.backends.cpu.get_cpu_capability()}", torch.get_num_threads())]
