"""One type checked: all that was seen of a tiny model against what its eager attention returns."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from attn_cli.call import Call, Selection
from attn_cli.errors import LoadError
from attn_cli.sources.huggingface.capture import capture
from attn_cli.sources.huggingface.missing import why_missing
from attn_cli.summaries.matrix import FullMatrix, Matrix
from attn_cli.summaries.reduce import Summary, reduce
from tests.coverage.inputs import Inputs, inputs_of
from tests.coverage.tiny import tiny_model

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
    compared    how many returned tensors were found among those seen
    note        why, in words
    """

    name: str
    verdict: str
    ways: dict[str, int] = field(default_factory=dict)
    streams: dict[str, int] = field(default_factory=dict)
    difference: float | None = None
    output: float | None = None
    compared: int = 0
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For a pipe between processes."""
        return asdict(self)


def check(name: str) -> Result:
    """Build the type, run it with capture on and off, compare."""
    try:
        model, inputs = built(name)
    except Exception as error:  # of any type; it is the model's own building that failed
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return Result(name, "not built", note=f"{type(error).__name__}: {line}"[:100])
    plain = _run(deepcopy(model), inputs)
    returned = deepcopy(model)
    references = [
        (key, x) for key, x in _attentions(_run(returned, inputs, output_attentions=True)) if _is_attention(x)
    ]
    found: list[Summary] = []

    def visit(call: Call) -> None:
        found.append(reduce(call, FullMatrix()))

    with capture(model, visit) as seen:
        outputs = _run(model, inputs)
    result = Result(name, "", dict(_counted(found, "way")), _layers(found), output=_furthest(plain, outputs))
    error = why_missing(model, seen, Selection(), name)
    if isinstance(error, LoadError) and "no softmax attention" in error.message:
        result.verdict = "no attention" if not references else "different"
        return result
    if error is not None:
        result.verdict, result.note = "refused", error.message
        return result
    return _judged(result, found, references, model)


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


def _judged(result: Result, found: list[Summary], references: list[tuple[str, torch.Tensor]], model: Any) -> Result:
    """`result` with the verdict: the furthest that a returned tensor is from the nearest one seen."""
    candidates = list(_layouts(found))
    if not references:
        result.verdict = "unreferenced" if found else "refused"
        return result
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
    return result


def _run(model: PreTrainedModel, inputs: Inputs, **options: Any) -> Any:
    torch.manual_seed(0)
    np.random.seed(0)  # some draw random blocks
    takes_all = {name: x.clone() if isinstance(x, torch.Tensor) else x for name, x in inputs.items()}
    with torch.no_grad():
        try:
            return model(**takes_all, **options)
        except TypeError:  # it returns no attention on request
            if not options:
                raise
            return {}


def _attentions(output: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Everything in a model's output that is called attention."""
    for key, value in output.items() if hasattr(output, "items") else ():
        if "attention" in key and "mask" not in key:
            yield from ((f"{key}.{i}", x) for i, x in enumerate(_tensors(value)))
        elif hasattr(value, "items"):
            yield from ((f"{key}.{inner}", x) for inner, x in _attentions(value))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
        return
    for inner in value if isinstance(value, list | tuple) else value.values() if hasattr(value, "values") else ():
        yield from _tensors(inner)


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
    return [x, x.swapaxes(0, 1)] if x.ndim > 2 else [x]


def _unbanded(x: np.ndarray, window: Any) -> np.ndarray:
    """Longformer's `[h, n, 2w + 1]`, column c for key i - w + c, as `[h, n, n]`."""
    half = (window[0] if isinstance(window, list | tuple) else window) // 2
    h, n, width = x.shape
    placed = np.zeros((h, n, n + width), x.dtype)
    for i in range(n):
        placed[:, i, i : i + width] = x[:, i]
    return placed[:, :, half : half + n]


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


def _furthest(a: Any, b: Any) -> float:
    """The largest difference of two outputs, relative to the largest number of each tensor; NaN equals NaN."""
    worst = 0.0
    for x, y in zip(_numbers(a), _numbers(b), strict=True):
        both = torch.isfinite(x) & torch.isfinite(y)
        if x.shape != y.shape:
            return np.inf
        if bool(both.any()):
            worst = max(worst, float((x - y)[both].abs().max()) / max(1.0, float(x[both].abs().max())))
    return worst


def _numbers(output: Any) -> list[torch.Tensor]:
    """All that the model computed but its attention, of which a few return some unasked."""
    values = [x for key, x in output.items() if "attentions" not in key] if hasattr(output, "items") else output
    return [x.double() for x in _tensors(values) if x.is_floating_point()]


def _counted(found: list[Summary], what: str) -> Iterator[tuple[str, int]]:
    values = [getattr(summary.place, what) for summary in found]
    yield from ((value, values.count(value)) for value in dict.fromkeys(values))


def _layers(found: list[Summary]) -> dict[str, int]:
    """How many modules each stream has."""
    names = dict.fromkeys((summary.place.stream, summary.place.name) for summary in found)
    streams = [stream for stream, _ in names]
    return {stream: streams.count(stream) for stream in dict.fromkeys(streams)}
