"""Transformers' report on a checkpoint's weights: those that it lacks, or that have another shape."""

import re
from typing import Any

from transformers import PreTrainedModel

from attn_cli.errors import LoadError
from attn_cli.sources.huggingface.load.origin import Origin

# Parts on top of the stack, without attention, whose weights a checkpoint may lack.
_HEADS = re.compile(
    r"(^|\.)(pooler|lm_head|classifier|score|qa_outputs|cls|embed_out|visual_projection|text_projection)(\.|$)"
)


def loses_stack(model: PreTrainedModel, report: dict[str, Any]) -> bool:
    """True if the files hold a weight of the stack, not of a head on it, that the model has no place for."""
    prefix = f"{model.base_model_prefix}."
    return any(key.startswith(prefix) for key in report.get("unexpected_keys", ()))


def missing_weights(report: dict[str, Any]) -> list[str]:
    """The names, sorted, of the stack's weights that the files lack; heads on the stack don't count."""
    return sorted(key for key in report.get("missing_keys", ()) if not _HEADS.search(key))


def check_weights(origin: Origin, report: dict[str, Any], *, with_head: bool) -> None:
    """Raise LoadError for weights that transformers would silently fill with random numbers; it names the first."""
    missing = missing_weights(report)
    mismatched = sorted(report.get("mismatched_keys", ()), key=str)
    if with_head and not missing:
        lacking = sorted(report.get("missing_keys", ())) + [key for key, *_ in mismatched]
        head = [key for key in lacking if _HEADS.search(key) and "pooler" not in key]
        if head:
            raise LoadError(
                f"{origin.name} lacks its language-model head ({head[0]})",
                "leave out --generate, or load the whole model",
            )
    if missing:
        names = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise LoadError(
            f"{origin.name}: {len(missing)} of the model's weights are missing from its files ({names})",
            f"they would be random numbers; is this the right checkpoint for {origin.settings}?",
        )
    for key, file_shape, config_shape in mismatched:
        if not _HEADS.search(key):
            raise LoadError(
                f"{origin.name}: {key} is {list(file_shape)} in its files "
                f"and {list(config_shape)} by {origin.settings}",
                f"is this the right checkpoint for {origin.settings}?",
            )
