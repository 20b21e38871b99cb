"""Where an attention module sits in its model: block number, path, stream."""

import re
from typing import NamedTuple

from torch import nn

_CROSS = re.compile(r"cross|encoder_attn|encdec|enc_dec|encoder_decoder", re.IGNORECASE)


class Seat(NamedTuple):
    """A module's block number (None if its path has none), its path and its stream."""

    layer: int | None
    path: str
    stream: str


def seat_of(module: nn.Module, path: str, *, encoder_decoder: bool) -> Seat:
    """Read block number and stream off the module's path, such as "decoder.layers.3.encoder_attn".

    The first number in the path is the block; deeper numbers are parts of a block. Only encoder-decoders have streams
    other than "self".
    """
    numbers = re.findall(r"(?:^|\.)(\d+)(?=\.|$)", path)
    layer = int(numbers[0]) if numbers else getattr(module, "layer_idx", None)
    if not encoder_decoder:
        return Seat(layer, path, "self")
    if _CROSS.search(path.rpartition("decoder.")[2]):
        return Seat(layer, path, "cross")
    return Seat(layer, path, "decoder" if "decoder" in path else "encoder")
