"""Queries over the parts of a scan: the numbers of heads over documents, and the kinds of heads."""

import warnings
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from attn_cli.errors import InputError, optional
from attn_cli.scans.folder import DAMAGED, ScanFolder
from attn_cli.scans.numbers import JUDGED
from attn_cli.scans.part import PLACE, sums_of
from attn_cli.sources.corpora import arrow
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.summaries.reducers.kinds.reducer import KIND_NAMES, LEAST_ROWS, KindNumbers, least_share
from attn_cli.summaries.reducers.kinds.targets import KINDS
from attn_cli.text import excerpt

Floats = npt.NDArray[np.float64]
QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}


class ScanResults:
    """The results of a scan, of all parts that are in its folder.

    options   everything that the numbers depend on, as scan.json says it
    progress  counts: documents, records, tokens, parts, missing, rejected, and reasons (rejected records by reason)
    parts     what each part that has documents says of itself, by its number

    Raises InputError for a folder without a scan, of another version, or with damaged parts.
    """

    def __init__(self, folder: str) -> None:
        self.name, self.folder = folder, ScanFolder(folder)
        self.options = self.folder.scan
        if not self.options:
            hint = "attn scan INPUT... -m MODEL -o DIR makes one"
            raise InputError(f"{excerpt(folder)} is not the folder of a scan", hint)
        self.progress = self.folder.counts()
        found = {number: self.folder.open(number)[0] for number in self.folder.parts()}
        self.parts = {number: about for number, about in found.items() if about["documents"]}
        if not self.parts:
            raise InputError(f"the scan in {excerpt(folder)} has no document yet", "the line that began it goes on")
        if len({about["heads"] for about in self.parts.values()}) > 1:
            raise InputError(f"the parts in {excerpt(folder)} are of other heads", DAMAGED)
        self.about = {name: self.options.get(name) for name in ("model", "type", "revision", "dtype", "device")}

    def table(self, columns: list[str] | None = None) -> Any:
        """The rows of all parts, one for each document and head, as `pyarrow.Table`; of some columns, or of all."""
        with parse_errors(f"the parts in {excerpt(self.name)}", DAMAGED):
            return arrow().concat_tables([self.folder.open(number)[1].read(columns) for number in self.parts])

    def values(self, name: str) -> np.ndarray:
        """A number of every document and head `[documents, heads]`, NaN for none."""
        with parse_errors(f"the parts in {excerpt(self.name)}", DAMAGED):
            column = self.table([name])[name].to_numpy().astype(np.float32).reshape(-1, len(self.places))
            if np.isinf(column).any():
                raise ValueError(f"{name} holds what is no finite number")
        return column

    @cached_property
    def places(self) -> list[dict[str, Any]]:
        """The heads, each as the columns that name it in an answer."""
        first = next(iter(self.parts))
        with parse_errors(f"the parts in {excerpt(self.name)}", DAMAGED):
            rows = self.folder.open(first)[1].read([*PLACE]).slice(0, self.parts[first]["heads"]).to_pylist()
        several = {(row["stream"], row["layer"], row["head"]) for row in rows}
        left_out = {"module", "call"} if len(several) == len(rows) else set()
        left_out |= {"stream"} if all(row["stream"] == "self" for row in rows) else set()
        return [{name: row[name] for name in PLACE if name not in left_out} for row in rows]

    @cached_property
    def kinds(self) -> dict[str, np.ndarray]:
        """Of every kind and head `[K, heads]` the share with its interval and certainty, and what else names heads."""
        sums: dict[str, Any] = {}
        with parse_errors(f"the parts in {excerpt(self.name)}", DAMAGED):
            for number in self.parts:
                for name, array in sums_of(self.folder.open(number)[1]).items():
                    if array.shape != (len(KINDS), len(self.places)):
                        raise ValueError(f"{name} is of other heads")
                    sums[name] = sums.get(name, 0) + array
            with np.errstate(invalid="ignore", divide="ignore"):
                found = {name: sums[name] / sums[f"{name}.count"] for name in JUDGED}
            found |= {name: sums[name] for name in ("rows", "control_rows")}
        found["control"][found["control_rows"] < LEAST_ROWS] = np.nan
        share, documents = found["share"], sums["share.count"]
        least = [least_share(kind, found["baseline"][at], found["control"][at]) for at, kind in enumerate(KINDS)]
        with np.errstate(invalid="ignore", divide="ignore"):
            variance = (sums["share_squared"] / documents - share**2).clip(0) * documents / (documents - 1)
            far = (share - np.stack(least)) / np.sqrt(variance) * np.sqrt(documents)
            below = two_sided_p(far, documents - 1) / 2
        width = ci_half_width(variance, documents)
        found |= {"share_low": (share - width).clip(0), "share_high": (share + width).clip(None, 1)}
        return found | {"documents": documents, "certainty": np.where(far > 0, 1 - below, below)}

    @cached_property
    def kind(self) -> list[str]:
        """The kind of every head over all documents."""
        names = []
        for at in range(len(self.places)):
            of = {name: numbers[:, at] for name, numbers in self.kinds.items()}
            of_head = {name: of[name][:, None] for name in ("share", "non_sink_weight", "row_support", "control")}
            of_text = {name: of[name] for name in ("baseline", "rows", "control_rows")}
            numbers = KindNumbers(of_head["share"], **of_head, **of_text, first_is_sink=of["first_is_sink"][:1])
            names.append(KIND_NAMES[int(numbers.kind[0])])
        return names


def estimates(values: np.ndarray, *, quantiles: bool = False) -> dict[str, np.ndarray]:
    """For each head count of documents, mean, its 95 % interval, standard deviation, exact quantiles `[heads]`."""
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, values, 0).sum(axis=0, dtype=np.float64) / count
        apart = np.where(known, values - mean, 0.0)
        variance = np.where(count > 1, (apart * apart).sum(axis=0) / (count - 1), np.nan)
    width = ci_half_width(variance, count)
    found = {"documents": count, "document_mean": mean, "low": mean - width, "high": mean + width}
    found["standard_deviation"] = np.sqrt(variance)
    if quantiles:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a head without a number
            of_ranks = np.nanquantile(values.astype(np.float64), [*QUANTILES.values()], axis=0)
        found |= dict(zip(QUANTILES, of_ranks, strict=True))
    return found


def _special() -> Any:
    return optional("scipy", "scan", "intervals of a scan need", "special").special


def two_sided_p(t: npt.ArrayLike, dof: npt.ArrayLike) -> Floats:
    """The probability of |t| or more with `dof` degrees of freedom; NaN stays NaN."""
    p: Floats = 2 * _special().stdtr(dof, -np.abs(t))
    return p


def ci_half_width(variance: npt.ArrayLike, count: npt.ArrayLike) -> Floats:
    """Half the width of the 95 % confidence interval of the mean of `count` numbers; NaN for fewer than two."""
    with np.errstate(all="ignore"):
        width: Floats = _special().stdtrit(np.subtract(count, 1), 0.975) * np.sqrt(np.divide(variance, count))
    return width


def holm(p_values: npt.ArrayLike) -> Floats:
    """P-values adjusted for so many tests at once (Holm 1979): those below 0.05 have a family-wise error rate of 5 %.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p_values = np.asarray(p_values, np.float64)
    adjusted = np.full(p_values.shape, np.nan)
    order = np.argsort(p_values)[: int(np.isfinite(p_values).sum())]
    raised = p_values[order] * (len(order) - np.arange(len(order)))
    adjusted[order] = np.minimum(np.maximum.accumulate(raised), 1.0)
    return adjusted
