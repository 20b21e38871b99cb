"""The search for W_O of a type, on which `--by output` rests.

found    W_O is given what the attention function returned
no       it isn't, and `attn` says so
"""

from transformers import PreTrainedModel

from attn_cli.call import Call
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlaces
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.residual import Projections
from tests.architectures.inputs import Inputs
from tests.architectures.outputs import run


def w_o_found(model: PreTrainedModel, inputs: Inputs) -> str:
    """In which attention layers of one pass W_O was found, with their numbers where there are several answers."""
    found = Projections(ModulePlaces(model), inputs).found
    words = ["found" if x else "no: no matrix is given what heads give" for x in found.values()]
    seen: list[str] = []

    def visit(call: Call) -> None:
        if call.place.name not in found:
            seen.append(call.place.name)

    with capture(model, visit):
        run(model, inputs)
    words += ["no: weights without values"] * len(set(seen))
    counts = {word: words.count(word) for word in words}
    return "; ".join(counts if len(counts) == 1 else (f"{word} {count}" for word, count in counts.items()))


def is_found(words: str) -> bool:
    """True if W_O was found in all layers, by the answer of `w_o_found`.

    >>> is_found("found"), is_found("found 2; no: weights without values 1")
    (True, False)
    """
    return bool(words) and "no: " not in words
