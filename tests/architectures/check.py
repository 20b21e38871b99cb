"""One type checked: all that was seen of a tiny model against what its eager attention returns."""

from collections.abc import Iterator
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
from attn_cli.sources.huggingface.read.batching import reads_alone
from attn_cli.summaries.reduce import Summary, reduce
from attn_cli.summaries.reducers.matrix import FullMatrix, Matrix
from tests.architectures.batches import cached, padded, reads_text, told
from tests.architectures.inputs import TOKENS, Inputs, inputs_of
from tests.architectures.outputs import Softmaxes, furthest, numbers, run, tensors
from tests.architectures.tiny import tiny_model

# Sums of float32 in another order, on scores of size 10; measured 3e-7 where nothing is wrong.
EXACT, CLOSE = 1e-5, 1e-4


@dataclass
class Result:
    """What came of one type.

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
    alone       whether `attn` therefore never pads the type's texts
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
    alone: bool = False
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For a pipe between processes."""
        return asdict(self)


def check(name: str, *, batches: bool = True) -> Result:
    """Build the type, run it with capture on and off, compare; with `batches` also padded and with a cache."""
    try:
        model, inputs = built(name)
    except Exception as error:  # of any type; it is the model's own building that failed
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return Result(name, "not built", note=f"{type(error).__name__}: {line}"[:100])
    fresh = deepcopy(model) if batches else None
    result = _looked_at(name, model, inputs)
    if fresh is not None and result.verdict not in ("no attention", "refused"):
        text = reads_text(fresh, inputs)
        if text is not None:
            result.alone = reads_alone(fresh)
            result.right, result.left = (told(padded, fresh, text, side) for side in ("right", "left"))
            result.cache = told(cached, fresh, text)
    return result


def _looked_at(name: str, model: PreTrainedModel, inputs: Inputs) -> Result:
    """One forward pass compared with what the same pass returns under eager."""
    plain = run(deepcopy(model), inputs)
    with Softmaxes() as softmaxes:
        returned = _returned(deepcopy(model), inputs)
    references = [(key, x) for key, x in _attentions(returned) if _is_attention(x)]
    found: list[Summary] = []

    def visit(call: Call) -> None:
        shows_scores = getattr(call, "scores", True) is not None
        found.append(reduce(call, FullMatrix(weights=True, scores=shows_scores)))

    with capture(model, visit) as ledger:
        outputs = run(model, inputs)
    result = Result(name, "", dict(_counted(found, "way")), _layers(found), output=furthest(plain, outputs))
    error = why_missing(model, ledger, Selection(), name)
    if isinstance(error, LoadError) and "no softmax attention" in error.message:
        result.verdict = "no attention" if not references else "different"
        return result
    if error is not None:
        result.verdict, result.note = "refused", error.message
        return result
    result.scores = _scores_apart(found, references, softmaxes)
    _judge(result, found, references, model)
    if result.verdict == "unreferenced" and (worst := softmaxes.furthest(_maps(found))) <= CLOSE:
        result.verdict, result.difference = "equal" if worst <= EXACT else "close", worst
        result.note = "returns no attention; compared with what came out of its softmaxes under eager"
    elif result.verdict == "unreferenced" and any(bool(x.isnan().any()) for x in numbers(plain)):
        result.note = "the tiny model's own numbers are NaN"
    elif result.verdict == "unreferenced" and set(result.ways) == {"sdpa"}:
        result.note = "torch's SDPA alone, which returns no weights; outputs are equal"
    return result


def _returned(model: PreTrainedModel, inputs: Inputs) -> Any:
    """What the model returns when asked for its attention; nothing if it can't be asked."""
    try:
        return run(model, inputs, output_attentions=True)
    except (TypeError, ValueError):
        return {}


def _scores_apart(
    found: list[Summary], references: list[tuple[str, torch.Tensor]], softmaxes: Softmaxes
) -> float | None:
    """The largest difference of scores from what went into eager's softmax, relative to the largest of a layer.

    Cells that are blocked are left out. None if none could be compared.
    """
    worst: float | None = None
    matrices = [summary.part(Matrix) for summary in found]
    for _, reference in references:
        expected = softmaxes.scores_of(reference.float()) if reference.shape[0] == 1 else None
        if expected is None:
            continue
        mine = [x for x in matrices if x is not None and x.scores is not None and x.weights is not None
                and _distance(x.weights, reference[0].float().numpy()) <= CLOSE]  # fmt: skip
        near = [_relative(x.scores, expected[0]) for x in mine if x.scores.shape == expected.shape[1:]]  # type: ignore[union-attr,arg-type]
        if near:
            worst = max(worst or 0.0, min(near))
    return worst


def _relative(scores: np.ndarray, expected: torch.Tensor) -> float:
    """The largest difference where neither is blocked, relative to the largest score; infinite if one alone is.

    A model may take a row's largest number away before its softmax; what it took is put back.
    """
    theirs = expected.numpy()
    open_ = np.isfinite(scores)
    if bool((open_ & (theirs <= torch.finfo(torch.float32).min / 2)).any()):
        return np.inf
    apart = np.where(open_, np.where(open_, scores, 0.0) - theirs, 0.0)
    if theirs.max() <= 0.0 < np.abs(apart).max() and not np.allclose(apart, 0.0, atol=1e-3):
        taken = np.where(open_, apart, -np.inf).max(axis=-1, keepdims=True, initial=-np.inf)
        apart = np.where(open_, apart - taken, 0.0)
    return float(np.abs(apart).max()) / max(1.0, float(np.abs(scores[open_]).max(initial=0.0)))


def built(name: str) -> tuple[PreTrainedModel, Inputs]:
    """A model of the type that runs, and what it runs on."""
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


def _maps(found: list[Summary]) -> list[np.ndarray]:
    matrices = [summary.part(Matrix) for summary in found]
    return [x.weights for x in matrices if x is not None and x.weights is not None]


def _judge(result: Result, found: list[Summary], references: list[tuple[str, torch.Tensor]], model: Any) -> None:
    """Give `result` its verdict: the furthest that a returned tensor is from the nearest one seen."""
    candidates = list(_layouts(found))
    if not references:
        result.verdict = "unreferenced" if found else "refused"
        return
    worst, lost = 0.0, []
    for key, reference in references:
        expected = _shapes(reference, model)
        nearest = min((_distance(x, y) for x in candidates for y in expected), default=np.inf)
        if nearest > CLOSE:
            lost.append(key)
        worst = max(worst, nearest)
    result.compared = len(references) - len(lost)
    result.difference = None if np.isinf(worst) else worst
    result.verdict = "different" if lost else "equal" if worst <= EXACT else "close"
    result.note = f"not found: {', '.join(lost[:3])}" if lost else ""


def _attentions(output: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Everything in a model's output that is called attention."""
    for key, value in output.items() if hasattr(output, "items") else ():
        if "attention" in key and "mask" not in key:
            yield from ((f"{key}.{i}", x) for i, x in enumerate(tensors(value)))
        elif hasattr(value, "items"):
            yield from ((f"{key}.{inner}", x) for inner, x in _attentions(value))


def _is_attention(x: torch.Tensor) -> bool:
    """Rows of numbers in [0, 1] that add to at most 1, over keys; what models return under that name is not always."""
    if x.ndim < 3 or not x.is_floating_point() or not x.numel() or not bool(torch.isfinite(x).all()):
        return False
    sums = x.double().sum(-1)
    if x.ndim == 5 and bool((sums.sum(-1) <= 1 + 1e-3).all()):
        sums = sums.sum(-1)  # scales and points of a deformable attention share one softmax
    # Less than 1 where a sink takes the rest; but some row has most of it.
    return bool((x >= -CLOSE).all() and (sums <= 1 + 1e-3).all() and sums.max() > 0.5)


def _layouts(found: list[Summary]) -> Iterator[np.ndarray]:
    """Every map that was seen, and calls of one module put together as the module returns them."""
    by_module: dict[tuple[str, tuple[int, ...]], list[np.ndarray]] = {}
    for summary in found:
        matrix = summary.part(Matrix)
        assert matrix is not None and matrix.weights is not None
        yield matrix.weights
        by_module.setdefault((summary.place.name, matrix.weights.shape), []).append(matrix.weights)
    for maps in by_module.values():
        for parts in range(1, len(maps)):
            if len(maps) % parts == 0:
                together = np.stack(maps)
                yield from np.split(together, parts)
                yield from (together[part::parts] for part in range(parts))


def _shapes(reference: torch.Tensor, model: Any) -> list[np.ndarray]:
    """What a model returned, in the layouts that it can have: [..., h, n, m], heads elsewhere, or a band of keys."""
    x = reference.float().numpy()
    while x.ndim > 2 and x.shape[0] == 1:
        x = x[0]
    window = getattr(model.config, "attention_window", None)
    if x.ndim == 3 and window is not None:
        return [x, _unbanded(x, window), _unbanded(x.swapaxes(0, 1), window)]
    if radius := getattr(model.config, "local_radius", 0):
        return [x, _unblocked(reference[0].float().numpy(), radius + 1)]
    return [x, x.swapaxes(0, 1)] if x.ndim > 2 else [x]


def _unbanded(x: np.ndarray, window: Any) -> np.ndarray:
    """Longformer's `[h, n, 2w + 1]`, column c for key i - w + c, as `[h, n, n]`."""
    half = (window[0] if isinstance(window, list | tuple) else window) // 2
    h, n, width = x.shape
    placed = np.zeros((h, n, n + width), x.dtype)
    for i in range(n):
        placed[:, i, i : i + width] = x[:, i]
    return placed[:, :, half : half + n]


def _unblocked(x: np.ndarray, rows: int) -> np.ndarray:
    """LongT5's `[blocks, h, l, 3l + g]`, column c of block k for key (k - 1)l + c, as `[h, n, n + g]`."""
    if x.ndim != 4 or x.shape[2] != rows:
        return x
    n, extra = TOKENS.shape[1], x.shape[3] - 3 * rows
    placed = np.zeros((x.shape[1], n, n + extra), x.dtype)
    for i in range(n):
        block, row = divmod(i, rows)
        for c in range(3 * rows):
            if 0 <= (j := (block - 1) * rows + c) < n:
                placed[:, i, j] = x[block, :, row, c]
        placed[:, i, n:] = x[block, :, row, 3 * rows :]
    return placed


def _distance(seen: np.ndarray, returned: np.ndarray) -> float:
    """The largest difference; infinite where the shapes have nothing to do with each other."""
    while seen.ndim > 2 and seen.shape[0] == 1:
        seen = seen[0]
    if seen.shape != returned.shape:
        if seen.ndim == returned.ndim == 3 and seen.shape[0] == returned.shape[0] and _within(returned, seen):
            seen = seen[:, -returned.shape[1] :, -returned.shape[2] :]  # a prompt that the model itself put in front
        elif seen.size == returned.size and seen.shape[-1] == returned.shape[-1]:
            seen = seen.reshape(returned.shape)
        elif seen.size == returned.size and returned.ndim == 4 and seen.ndim == 3:
            seen = seen.reshape(returned.shape)  # the points of a deformable attention by their scale
        else:
            return np.inf
    return float(np.nan_to_num(np.abs(seen.astype(np.float64) - returned), nan=np.inf).max())


def _within(small: np.ndarray, large: np.ndarray) -> bool:
    return small.shape[1] <= large.shape[1] and small.shape[2] <= large.shape[2]


def _counted(found: list[Summary], what: str) -> Iterator[tuple[str, int]]:
    values = [getattr(summary.place, what) for summary in found]
    yield from ((value, values.count(value)) for value in dict.fromkeys(values))


def _layers(found: list[Summary]) -> dict[str, int]:
    """How many modules each stream has."""
    names = dict.fromkeys((summary.place.stream, summary.place.name) for summary in found)
    streams = [stream for stream, _ in names]
    return {stream: streams.count(stream) for stream in dict.fromkeys(streams)}
