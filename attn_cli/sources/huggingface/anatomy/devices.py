"""Devices and number types: those that a user names, those that are here, and those of a module, with its hash."""

from hashlib import blake2b
from typing import Any

import torch
from torch import nn

from attn_cli.errors import InputError
from attn_cli.sources.devices import DTYPES, DeviceRow, cpu_row

_BLOCK = 4096  # numbers that are added up as integers: a change of any of them shows
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def fingerprint(model: nn.Module) -> str:
    """A hash of the parameters: of names and shapes, sums of the bits of all numbers, and up to 64 numbers of each."""
    digest = blake2b(digest_size=16)
    for name, parameter in model.named_parameters():
        flat = parameter.detach().reshape(-1)
        some = flat[:: max(1, flat.numel() // 64)][:64].float().cpu().numpy()
        digest.update(f"{name} {tuple(parameter.shape)}".encode() + some.tobytes())
        bits, blocks = flat.view(_BITS[flat.element_size()]), flat.numel() // _BLOCK
        for part in (bits[: blocks * _BLOCK].view(blocks, _BLOCK), bits[None, blocks * _BLOCK :]):
            digest.update(part.sum(dim=1, dtype=torch.int64).cpu().numpy().tobytes())
    return digest.hexdigest()


def device_of_module(module: nn.Module) -> torch.device:
    """The device of its first parameter; the CPU for a module without any."""
    return next((x.device for x in module.parameters()), torch.device("cpu"))


def dtype_of_module(module: nn.Module) -> torch.dtype:
    """The type of its first parameter of floats; float32 for a module without any."""
    return next((x.dtype for x in module.parameters() if x.is_floating_point()), torch.float32)


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
