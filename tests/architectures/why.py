"""Separation of content and position by `attn why`: the rotation of a type's queries, verified or not.

halves, interleaved   columns p and p + d/2, or 2p and 2p + 1, are turned together, in all layers but those that turn
                      none; "of a part" where some columns aren't turned
none needed           a query is the output of a module: nothing turns it
no                    neither is so, and `attn` says why
"""

from transformers import PreTrainedModel

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.errors import LoadError
from attn_cli.kernel.definition.positions import Turning
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.summaries.reduce import reduce
from tests.architectures.inputs import Inputs
from tests.architectures.outputs import run


def why_verified(model: PreTrainedModel, inputs: Inputs) -> str:
    """The rotations of all attention calls of one pass, as far as known; "" where no q and k are seen."""
    words: list[str] = []

    def visit(call: Call) -> None:
        reduce(call)
        turning = call.ingredients.turning if isinstance(call, AttentionCall) else None
        words.append("no: weights without q and k" if turning is None else word_of(turning()))

    try:
        with capture(model, visit, rotations=True):
            run(model, inputs)
    except LoadError:
        return ""
    return "; ".join(dict.fromkeys(words))


def word_of(turning: Turning) -> str:
    if turning.unknown:
        return f"no: {turning.unknown}"
    if not turning.first:
        return "none needed"
    layout, _, part = turning.layout.partition(" of ")
    return f"{layout} of a part" if part else layout


def is_all_unproved(words: str) -> bool:
    """True if no layer's rotation is verified, by the answer of `why_verified`.

    >>> is_all_unproved("no: a; no: b"), is_all_unproved("no: a; halves")
    (True, False)
    """
    return all(word.startswith("no: ") for word in words.split("; "))
