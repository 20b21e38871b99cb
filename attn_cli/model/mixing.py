"""The output of a layer in terms of its input: attention's sum over keys, the residual stream, the norm after both."""

from dataclasses import dataclass

from attn_cli.arrays import Array
from attn_cli.attention_call import AttentionCall


@dataclass(frozen=True, eq=False)
class MixedLayer:
    """One layer of an encoder up to where its feed-forward network begins.

    x        the residual vectors that the attention's output is added to, of n tokens `[n, width]`
    gain     `[width]`, by which the norm behind the sum multiplies each dimension, up to a factor of each row
    centred  whether that norm takes the mean over the dimensions off (LayerNorm) or not (RMSNorm)
    """

    call: AttentionCall
    x: Array
    gain: Array | None = None
    centred: bool = False
