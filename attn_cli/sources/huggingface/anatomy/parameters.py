"""A module's parameters: their device, number type and hash."""

from hashlib import blake2b

import torch
from torch import nn

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
