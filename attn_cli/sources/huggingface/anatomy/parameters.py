"""Device and number type of a module, by its parameters."""

import torch
from torch import nn


def device_of_module(module: nn.Module) -> torch.device:
    """The device of its first parameter; the CPU for a module without any."""
    return next((x.device for x in module.parameters()), torch.device("cpu"))


def dtype_of_module(module: nn.Module) -> torch.dtype:
    """The type of its first parameter of floats; float32 for a module without any."""
    return next((x.dtype for x in module.parameters() if x.is_floating_point()), torch.float32)
