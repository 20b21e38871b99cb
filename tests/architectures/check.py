"""One type checked: all that `attn` sees of a tiny model against what its eager attention returns."""

from collections.abc import Collection, Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from attn_cli.call import Call
from attn_cli.errors import LoadError
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.failures import why_missing
from attn_cli.sources.huggingface.read.input_files import unpadded_only
from attn_cli.summaries.reduce import Summary, reduce
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.architectures.batches import answer_or_error, cached, padded, text_inputs
from tests.architectures.inputs import Inputs, inputs_of
from tests.architectures.knock import knock_from_cache
from tests.architectures.layouts import CLOSE, attentions_in, distance, is_attention, returned_layouts, seen_layouts
from tests.architectures.outputs import furthest, numbers, run
from tests.architectures.softmax_recorder import SoftmaxRecorder
from tests.architectures.tiny import tiny_model
from tests.architectures.w_o import w_o_found

# Sums of float32 in another order, on scores of size 10; measured 3e-7 where nothing is wrong.
EXACT = 1e-5


@dataclass
class Result:
    """The result for one type.

    verdict     "equal", "close" (within 1e-4), "different", "unreferenced" (seen, but eager returns nothing to compare
                with), "no attention", "refused" or "not built"
    ways        by which ways layers were seen, and how many
    streams     how many layers each stream has
    difference  the largest between weights seen and returned
    output      the largest between the model's outputs with capture on and off, relative to the largest of them
    scores      the largest between scores seen and what went into eager's softmax, relative to the largest of a layer
    compared    how many returned tensors were found among those seen
    right       of a type that reads text: how far padding on the right moves a text's weights, or why none can tell
    left        the same of padding on the left
    cache       how far a cache of keys and values moves the weights of the next token
    knock       of a type that chooses next tokens: how heads are silenced (see `knock_from_cache`)
    alone       whether `attn` therefore never pads the type's texts
    w_o         how W_O was found (see `w_o_found`)
    note        why, in words
    """

    name: str
    verdict: str
    ways: dict[str, int] = field(default_factory=dict)
    streams: dict[str, int] = field(default_factory=dict)
    difference: float | None = None
    output: float | None = None
    scores: float | None = None
    compared: int = 0
    right: str = ""
    left: str = ""
    cache: str = ""
    knock: str = ""
    w_o: str = ""
    alone: bool = False
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def check(name: str, *, batches: bool = True) -> Result:
    """Build the type, run it with capture on and off, compare; with `batches` also padded and with a cache."""
    try:
        model, inputs = built(name)
    except Exception as error:  # of any type; it is the model's own building that failed
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return Result(name, "not built", note=f"{type(error).__name__}: {line}"[:100])
    fresh = deepcopy(model) if batches else None
    result = _compared(name, model, inputs)
    if fresh is not None and result.verdict not in ("no attention", "refused"):
        text = text_inputs(fresh, inputs)
        if text is not None:
            result.alone = unpadded_only(fresh)
            result.right, result.left = (answer_or_error(padded, fresh, text, side) for side in ("right", "left"))
            result.cache = answer_or_error(cached, fresh, text)
            result.knock = knock_from_cache(deepcopy(fresh), text)
        result.w_o = w_o_found(fresh, inputs)
    return result


def _compared(name: str, model: PreTrainedModel, inputs: Inputs) -> Result:
    """One captured forward pass compared with what the same pass returns under eager."""
    plain = run(deepcopy(model), inputs)
    with SoftmaxRecorder() as softmaxes:
        returned = _returned(deepcopy(model), inputs)
    references = [(key, x) for key, x in attentions_in(returned) if is_attention(x)]
    summaries: list[Summary] = []

    def visit(call: Call) -> None:
        shows_scores = getattr(call, "scores", True) is not None
        summaries.append(reduce(call, MatrixOf(kinds=("weights", "scores")[: 1 + shows_scores])))

    outputs: Any = None
    try:
        with capture(model, visit) as ledger:
            outputs = run(model, inputs)
    except LoadError:
        if outputs is None:  # else nothing was seen: `why_missing` says why, of a model that has a configuration
            raise
    result = Result(name, "", dict(_counted(summaries, "way")), _layers(summaries), output=furthest(plain, outputs))
    error = why_missing(model, ledger, Selection(), name)
    if isinstance(error, LoadError) and "no softmax attention" in error.message:
        result.verdict = "no attention" if not references else "different"
        return result
    if error is not None:
        result.verdict, result.note = "refused", error.message
        return result
    result.scores = _scores_apart(summaries, references, softmaxes)
    _judge(result, summaries, references, model)
    if is_taken_for_an_encoder(model, result.streams):
        result.verdict, result.note = "different", "chooses next tokens, and its stack is taken for an encoder"
    elif result.verdict == "unreferenced" and (worst := softmaxes.furthest(_matrices(summaries))) <= CLOSE:
        result.verdict, result.difference = "equal" if worst <= EXACT else "close", worst
        result.note = "returns no attention; compared with what came out of its softmaxes under eager"
    elif result.verdict == "unreferenced" and any(bool(x.isnan().any()) for x in numbers(plain)):
        result.note = "the tiny model's own numbers are NaN"
    elif result.verdict == "unreferenced" and set(result.ways) == {"sdpa"}:
        result.note = "torch's SDPA alone, which returns no weights; outputs are equal"
    return result


def is_taken_for_an_encoder(model: PreTrainedModel, streams: Collection[str]) -> bool:
    """True if a model that predicts next tokens without an encoder has an encoder's stream among these."""
    alone = "encoder" in streams and not {"decoder", "cross"} & set(streams)
    return alone and model.can_generate() and not model.config.is_encoder_decoder


def _returned(model: PreTrainedModel, inputs: Inputs) -> Any:
    """The model's output with output_attentions; nothing if it doesn't take that."""
    try:
        return run(model, inputs, output_attentions=True)
    except (TypeError, ValueError):
        return {}


def _scores_apart(
    summaries: list[Summary], references: list[tuple[str, torch.Tensor]], softmaxes: SoftmaxRecorder
) -> float | None:
    """The largest difference of scores from what went into eager's softmax, relative to the largest of a layer."""
    worst: float | None = None
    matrices = [summary.part(Matrix) for summary in summaries]
    for _, reference in references:
        expected = softmaxes.scores_of(reference.float()) if reference.shape[0] == 1 else None
        if expected is None:
            continue
        same = [x for x in matrices if x is not None and x.scores is not None and x.weights is not None
                and distance(x.weights, reference[0].float().numpy()) <= CLOSE]  # fmt: skip
        differences = [_relative(x.scores, expected[0]) for x in same if x.scores.shape == expected.shape[1:]]  # type: ignore[union-attr,arg-type]
        if differences:
            worst = max(worst or 0.0, min(differences))
    return worst


def _relative(scores: np.ndarray, expected: torch.Tensor) -> float:
    """The largest difference where neither is masked, relative to the largest score; infinite if one alone is."""
    eager = expected.numpy()
    open_ = np.isfinite(scores)
    if bool((open_ & (eager <= torch.finfo(torch.float32).min / 2)).any()):
        return np.inf
    apart = np.where(open_, np.where(open_, scores, 0.0) - eager, 0.0)
    if eager.max() <= 0.0 < np.abs(apart).max() and not np.allclose(apart, 0.0, atol=1e-3):
        subtracted = np.where(open_, apart, -np.inf).max(axis=-1, keepdims=True, initial=-np.inf)
        apart = np.where(open_, apart - subtracted, 0.0)
    return float(np.abs(apart).max()) / max(1.0, float(np.abs(scores[open_]).max(initial=0.0)))


def built(name: str) -> tuple[PreTrainedModel, Inputs]:
    try:
        model = tiny_model(name, "tiny")
        return model, inputs_of(model, name)
    except ImportError:
        raise
    except Exception as first:  # sizes that don't fit each other: keep the type's own, with less depth
        try:
            model = tiny_model(name, "shallow")
            return model, inputs_of(model, name)
        except Exception:
            raise first from None


def _matrices(summaries: list[Summary]) -> list[np.ndarray]:
    matrices = [summary.part(Matrix) for summary in summaries]
    return [x.weights for x in matrices if x is not None and x.weights is not None]


def _judge(result: Result, summaries: list[Summary], references: list[tuple[str, torch.Tensor]], model: Any) -> None:
    """Give `result` its verdict: the furthest that a returned tensor is from the nearest one seen."""
    candidates = list(seen_layouts(summaries))
    if not references:
        result.verdict = "unreferenced" if summaries else "refused"
        return
    worst, lost = 0.0, []
    for key, reference in references:
        expected = returned_layouts(reference, model)
        nearest = min((distance(x, y) for x in candidates for y in expected), default=np.inf)
        if nearest > CLOSE:
            lost.append(key)
        worst = max(worst, nearest)
    result.compared = len(references) - len(lost)
    result.difference = None if np.isinf(worst) else worst
    result.verdict = "different" if lost else "equal" if worst <= EXACT else "close"
    result.note = f"not found: {', '.join(lost[:3])}" if lost else ""


def _counted(summaries: list[Summary], attribute: str) -> Iterator[tuple[str, int]]:
    """The number of calls for each value of an attribute of their place."""
    values = [getattr(summary.place, attribute) for summary in summaries]
    yield from ((value, values.count(value)) for value in dict.fromkeys(values))


def _layers(summaries: list[Summary]) -> dict[str, int]:
    names = dict.fromkeys((summary.place.stream, summary.place.name) for summary in summaries)
    streams = [stream for stream, _ in names]
    return {stream: streams.count(stream) for stream in dict.fromkeys(streams)}
