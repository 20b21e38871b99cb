"""Types of which what eager returns is not what `attn` shows, each with the reason."""

_SINK = (
    "has a sink: attn shows the weights that the values got, eager returns the softmax without its sink; scaled to "
    "row sums of 1 they are equal (tested)"
)
KNOWN = {
    "granite_swa": _SINK,
    "granitemoe_swa": _SINK,
    "wavlm": "returns the mean over heads in place of every head; the mean of what is shown is equal (tested)",
    "t5gemma2": "one softmax over the tokens of decoder and encoder, shown whole; eager returns its halves (tested)",
    "groupvit": "returns which group a patch belongs to, a softmax over groups for every patch, turned about",
    "oneformer": "returns some weights as a mean over heads; attn shows each head",
    "rf_detr": "box sizes are exponentials here: a change of 1e-6 in the image changes the output by more than 1",
}

_BLOCKS = (
    "left: a query whose chosen blocks hold only padding attends to nothing, which attn and SDPA make zeros and eager "
    "an even row"
)
# Types whose weights move with padding or a cache, each with the reason.
BATCHES = {"minimax_m3_vl": _BLOCKS, "minimax_m3_vl_text": _BLOCKS}
