"""KIVI's groups of 32 numbers (Liu et al. 2024, section 3): a least number and a scale in float16, and whole numbers.

Keys are grouped along tokens, each channel by itself, since few channels hold the large numbers; values along channels,
each token by itself.
"""

import torch

_GROUP = 32


def by_channel(keys: torch.Tensor, bits: int) -> torch.Tensor:
    """Keys `[g, m, d]` rounded in groups of 32 tokens; the last tokens, too few for a group, are kept whole."""
    settled = keys.shape[1] // _GROUP * _GROUP
    groups = keys[:, :settled].reshape(len(keys), -1, _GROUP, keys.shape[-1])  # [g, groups, 32, d]
    return torch.cat([_in_groups(groups, bits, 2).flatten(1, 2), keys[:, settled:]], dim=1)


def by_token(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Values `[g, m, e]` rounded in groups of 32 numbers of a token."""
    return _in_groups(values.reshape(*values.shape[:-1], -1, _GROUP), bits, -1).flatten(-2)


def _in_groups(groups: torch.Tensor, bits: int, axis: int) -> torch.Tensor:
    """Numbers rounded to 2 ** bits levels from the least to the greatest along an axis; halves go to the even level."""
    highest = 2**bits - 1
    least = groups.amin(axis, keepdim=True).half().float()
    scale = ((groups.amax(axis, keepdim=True) - least) / highest).half().float()
    steps = torch.where(scale == 0, 0.0, (groups - least) / scale).clamp(0, highest).round()
    return steps * scale + least
