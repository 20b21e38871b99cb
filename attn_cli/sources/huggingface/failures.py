"""Why nothing was seen, in words: never an empty answer."""

from collections.abc import Sequence

from transformers import PreTrainedModel

from attn_cli.errors import AttnError, InputError, LoadError
from attn_cli.selection import Selection, ranges
from attn_cli.sources.huggingface.anatomy.softmax_in_code import attention_modules
from attn_cli.sources.huggingface.capture.session import Capture
from attn_cli.sources.huggingface.load.quantised import method_of
from attn_cli.sources.huggingface.read.processor import file_option


def why_missing(model: PreTrainedModel, seen: Capture, selection: Selection, name: str) -> AttnError | None:
    """The error for a pass in which an asked layer showed nothing; None if all showed something.

    LoadError (exit code 3) where the model is the reason, InputError where the asked layer is.
    """
    kind = str(model.config.model_type)
    if seen.unseen:
        seat = seen.unseen[0]
        return LoadError(
            f"{name} ({kind}): layer {seat.layer} ({seat.path}) attended where it can't be seen",
            "its softmax is in a compiled or fused kernel; other layers can be chosen with --layer",
        )
    if not seen.layers:
        if seen.others or not attention_modules(model):
            return no_attention(model, name)
        return LoadError(
            f"{name} ({kind}): no attention was seen in its forward pass",
            "load it with attn_implementation='eager', and give all the inputs that it reads",
        )
    for layer in selection.layers or ():
        if not any(layer + seen.blocks[stream] * (layer < 0) == number for stream, number in seen.layers):
            numbers = sorted({number for _, number in seen.layers})
            return InputError(f"layer {layer} has no softmax attention", f"layers with attention: {ranges(numbers)}")
    return None


def no_attention(model: PreTrainedModel, name: str) -> LoadError:
    """The error for a model in which nothing attends."""
    kind = model.config.model_type
    return LoadError(
        f"{name} ({kind}) has no softmax attention: it mixes tokens in another way", "there is nothing to show"
    )


def why_failed(
    model: PreTrainedModel, error: Exception, name: str, lacks: Sequence[str], *, unfit: bool
) -> AttnError | None:
    """The error for a forward pass that ended in one of the model's own; None where only a bug explains it.

    lacks  the arguments that parts of the model wait for and that it was not given
    unfit  whether what it was given may be to blame
    """
    line = str(error).strip().partition("\n")[0] or type(error).__name__
    called = f"{name} ({model.config.model_type})"
    hint = "--inputs FILE gives a model all that it reads"
    files = "".join(file_option(name.partition(" or ")[0]) for name in lacks[:1])
    hint += files or "; --debug shows the whole story"
    if lacks:
        return InputError(f"{called} was given no {', '.join(lacks)} and can't be run: {line}", hint)
    if unfit:
        return InputError(f"{called} can't be run on this: {line}", hint)
    if getattr(model, "hf_quantizer", None) is not None:
        method = method_of(model.config.quantization_config.to_dict())
        return LoadError(f"{called} is quantised ({method}) and can't be run here: {line}",
                         "are its weights packed as its config.json says? --debug shows the whole story")  # fmt: skip
    return None
