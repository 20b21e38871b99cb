"""The search for W_O of a type, on which `--by output` rests.

memory   W_O is given the very array that the attention function returned
copy     an array of the same numbers
gate     an array in which exactly those heads' slices are 0 whose outputs were set to 0
no       neither, and `attn` says why
"""

from transformers import PreTrainedModel

from attn_cli.call import Call
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.residual.projection_search import find_projections
from tests.architectures.inputs import Inputs
from tests.architectures.outputs import run

_REASONS = {
    "mixes them": "no: heads are mixed before it",
    "no module with a matrix": "no: no module is given what heads give",
}


def w_o_found(model: PreTrainedModel, inputs: Inputs) -> str:
    """The ways W_O was found in the attention layers of one pass, with their numbers where there are several."""
    found = find_projections(model, inputs).found
    words = [x.how or next(word for part, word in _REASONS.items() if part in x.why) for x in found.values()]
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

    >>> is_found("memory"), is_found("memory 2; gate 1"), is_found("memory 2; no: heads are mixed before it 1")
    (True, True, False)
    """
    return bool(words) and "no: " not in words
