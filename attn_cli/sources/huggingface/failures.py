"""Errors for a forward pass that failed or in which no attention was captured, in place of an empty answer."""

from collections.abc import Sequence
from itertools import dropwhile
from traceback import walk_tb

from transformers import PreTrainedModel

from attn_cli.errors import AttnError, InputError, LoadError, reason
from attn_cli.selection import Selection, ranges
from attn_cli.sources.huggingface.anatomy.configuration import kind_of
from attn_cli.sources.huggingface.anatomy.unseen_parts import no_attention
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.read.processor import file_option

_LIBRARIES = ("torch", "transformers")  # and modules of remote code, which are called transformers_modules
# attn's functions that run what the model calls, or make the mask that transformers would have made
_PASSING_ON = ("AttentionMode.", "LazyMask.", "BlockCalls.")


def why_missing(model: PreTrainedModel, ledger: Ledger, selection: Selection, name: str) -> AttnError | None:
    """The error for a pass in which the attention of a selected layer was not captured; None if all were."""
    title = f"{name} ({kind_of(model)})"
    if ledger.unseen:
        place, kernel = next(iter(ledger.unseen.items()))
        line = f"{title}: layer {place.layer} ({place.path}) attended where it can't be seen"
        hint = "attn sees plain tensors in torch's own functions: choose other layers with --layer"
        return LoadError(f"{line}: {kernel}" if kernel else line, hint)
    if not ledger.calls:
        if ledger.not_over_keys or not ledger.places.attention:
            return no_attention(model, name)
        return LoadError(
            f"{title}: no attention was seen in its forward pass",
            "load it with attn_implementation='eager', and give all the inputs that it reads",
        )
    seen = [(stream, number) for stream, number in ledger.calls if selection.has_stream(stream)]
    if not seen:
        selection.check_stream(stream for stream, _ in ledger.calls)
    for layer in selection.layers or ():
        if not any(layer + ledger.blocks[stream] * (layer < 0) == number for stream, number in seen):
            numbers = sorted({number for _, number in seen})
            return InputError(f"layer {layer} has no softmax attention", f"layers with attention: {ranges(numbers)}")
    return None


def why_failed(
    model: PreTrainedModel, error: Exception, name: str, missing: Sequence[str], *, unfit: bool
) -> AttnError | None:
    """The error for a forward pass that ended in `error`; None for one of attn's own code, or of a visitor's."""
    frames = (x for x, _ in walk_tb(error.__traceback__) if not x.f_code.co_qualname.startswith(_PASSING_ON))
    names = (str(frame.f_globals.get("__name__", "")) for frame in frames)
    modules = [*dropwhile(lambda module: not module.startswith(_LIBRARIES), names)]
    if not modules or any(module.startswith("attn_cli.") for module in modules):
        return None
    line, title = reason(error), f"{name} ({kind_of(model)})"
    files = "".join(file_option(name.partition(" or ")[0]) for name in missing[:1])
    hint = f"-F FILE.npz gives a model all that it reads{files or ' · --debug shows the whole story'}"
    if missing:
        return InputError(f"{title} was given no {', '.join(missing)} and can't be run: {line}", hint)
    if unfit:
        return InputError(f"{title} can't be run on this: {line}", hint)
    if getattr(model, "hf_quantizer", None) or all(module.startswith(_LIBRARIES) for module in modules):
        return LoadError(f"{title} can't be run: {line}", "is its config.json right? --debug shows the whole story")
    return None
