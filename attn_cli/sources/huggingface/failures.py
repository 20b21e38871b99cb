"""Errors for a forward pass that failed or in which no attention was captured, in place of an empty answer."""

from collections.abc import Sequence
from traceback import walk_tb

from transformers import PreTrainedModel

from attn_cli.errors import AttnError, InputError, LoadError
from attn_cli.selection import Selection, ranges
from attn_cli.sources.huggingface.anatomy.softmax_in_code import attention_modules
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.load.quantised import method_of
from attn_cli.sources.huggingface.read.processor import file_option

_LIBRARIES = ("torch", "transformers")


def why_missing(model: PreTrainedModel, ledger: Ledger, selection: Selection, name: str) -> AttnError | None:
    """The error for a pass in which a selected layer's attention was not captured; None if all were.

    LoadError (exit code 3) where the model is the reason, InputError where the selected layer is.
    """
    kind = str(model.config.model_type)
    if ledger.unseen:
        place = ledger.unseen[0]
        return LoadError(
            f"{name} ({kind}): layer {place.layer} ({place.path}) attended where it can't be seen",
            "its softmax is in a compiled or fused kernel; other layers can be chosen with --layer",
        )
    if not ledger.calls:
        if ledger.not_over_keys or not attention_modules(model):
            return no_attention(model, name)
        return LoadError(
            f"{name} ({kind}): no attention was seen in its forward pass",
            "load it with attn_implementation='eager', and give all the inputs that it reads",
        )
    for layer in selection.layers or ():
        if not any(layer + ledger.blocks[stream] * (layer < 0) == number for stream, number in ledger.calls):
            numbers = sorted({number for _, number in ledger.calls})
            return InputError(f"layer {layer} has no softmax attention", f"layers with attention: {ranges(numbers)}")
    return None


def no_attention(model: PreTrainedModel, name: str) -> LoadError:
    """The error for a model without softmax attention."""
    kind = model.config.model_type
    return LoadError(
        f"{name} ({kind}) has no softmax attention: it mixes tokens in another way", "there is nothing to show"
    )


def why_failed(
    model: PreTrainedModel, error: Exception, name: str, missing: Sequence[str], *, unfit: bool
) -> AttnError | None:
    """The error for a forward pass that ended in `error`; None if it looks like a bug of attn's.

    missing  arguments that parts of the model need and that were not given
    unfit    whether the given arguments may be the cause
    """
    line = str(error).strip().partition("\n")[0] or type(error).__name__
    title = f"{name} ({model.config.model_type})"
    hint = "--inputs FILE gives a model all that it reads"
    files = "".join(file_option(name.partition(" or ")[0]) for name in missing[:1])
    hint += files or "; --debug shows the whole story"
    if missing:
        return InputError(f"{title} was given no {', '.join(missing)} and can't be run: {line}", hint)
    if unfit:
        return InputError(f"{title} can't be run on this: {line}", hint)
    if getattr(model, "hf_quantizer", None) is not None:
        method = method_of(model.config.quantization_config.to_dict())
        return LoadError(f"{title} is quantised ({method}) and can't be run here: {line}",
                         "are its weights packed as its config.json says? --debug shows the whole story")  # fmt: skip
    if _is_the_models(error):
        return LoadError(f"{title} can't be run: {line}", "is its config.json right? --debug shows the whole story")
    return None


def _is_the_models(error: Exception) -> bool:
    """Whether it was raised in the code of transformers or torch, which no code of attn had called from inside."""
    modules = [str(frame.f_globals.get("__name__", "")) for frame, _ in walk_tb(error.__traceback__)]
    entered = next((at for at, module in enumerate(modules) if module.startswith(_LIBRARIES)), len(modules))
    return entered < len(modules) and all(module.startswith(_LIBRARIES) for module in modules[entered:])
