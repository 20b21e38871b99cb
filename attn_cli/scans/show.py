"""attn scan show: the heads of a scan, by kind or by a statistic; one head; what differs in another scan."""

from collections import Counter
from dataclasses import replace
from math import isnan, nan
from typing import Any

import numpy as np

from attn_cli.errors import InputError
from attn_cli.scans.folder import DAMAGED
from attn_cli.scans.numbers import PEAK, SHARES
from attn_cli.scans.results import QUANTILES, ScanResults, ci_half_width, estimates, holm, two_sided_p
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.summaries.answer import Answer, Next, Shape, Table, head_choice
from attn_cli.summaries.reducers.heads import STATISTICS
from attn_cli.summaries.reducers.kinds.reducer import KIND_NAMES, NOTHING
from attn_cli.summaries.reducers.kinds.targets import CONTENT, KINDS
from attn_cli.summaries.report import Ranking
from attn_cli.text import counted, excerpt, listed, visible

Row = dict[str, Any]

_PLACE = ("stream?", "module?", "call?", "layer", "head", "kv_head")
_KIND = ("documents", "share", "share_low", "share_high", "baseline", "control", "certainty")
_ESTIMATE = ("document_mean", "low", "high", "standard_deviation", *QUANTILES)
_SORTED = ("document_mean", "low", "high", "q05", "q50", "q95")
_WHERE = ("document", "piece", "file", "record")
_EXAMPLE = ("percentile", "weight", *_WHERE, "query", "key", "query_token", "key_token", "text", "whole")
_TESTED = ("document_mean", "other_mean", "difference", "low", "high", "effect", "p_value")
_CORPUS = {"corpus": ("folder", "model", "documents", "tokens"), "rejected": ("reason", "count")}
_HEADS = Shape(
    "attn.scan_heads/4",
    "The heads of a scan, in the order asked for. Means are over documents.",
    {"heads": (*_PLACE, "kind", *_KIND, *(f"{name}?" for name in _SORTED)), "kinds": ("kind", "count"), **_CORPUS},
    screen={
        "heads": ("head", "kind", "share", "share_low", "share_high", "baseline", "certainty"),
        "kinds": ("kind", "count"),
    },
    bars=("share",),
    legend=(
        "share: non-sink attention on the kind's targets; of first, delimiter: of all",
        "low, high: its 95 % interval · certain: probability that the mean is enough",
    ),
)
_BY_NUMBER = replace(
    _HEADS,
    screen={"heads": ("head", *_SORTED, "kind")},
    bars=(),
    legend=("low, high: 95 % interval of the mean over documents · p5, p50, p95: percentiles",),
)
_HEAD = Shape(
    "attn.scan_head/4",
    "All that a scan knows of one head. input is empty.",
    {
        "examples": (*_PLACE, *_EXAMPLE),
        "head": (*_PLACE, "kind", *_KIND),
        "statistics": (*_PLACE, "statistic", "documents", *_ESTIMATE),
        "kinds": ("kind", *_KIND, "named"),
        **_CORPUS,
    },
    screen={
        "statistics": ("statistic", *_SORTED),
        "kinds": ("kind", "share", "share_low", "share_high", "baseline", "certainty"),
        "examples": ("percentile", "weight", "record", "query_token", "key_token", "text"),
    },
    legend=(
        "share: of non-sink attention at queries with targets; first, delimiter: of all",
        "at: % of documents with less of the kind · weight: its largest off the sinks",
    ),
)
_DIFFERENCES = Shape(
    "attn.scan_differences/4",
    "Two scans, head by head. input is empty.",
    {
        "differences": (*_PLACE, "statistic", *_TESTED, "adjusted_p_value", "differs"),
        "kinds": (*_PLACE, "kind", "other_kind"),
        "run": ("test", "level", "compared", "differ", "unmatched_heads"),
        **_CORPUS,
    },
    screen={"differences": ("head", "statistic", *_TESTED[:-1]), "kinds": ("head", "kind", "other_kind")},
    legend=(
        "low, high: 95 % interval · effect: Cohen's d, over documents' standard deviation",
        "first the largest difference, over heads' standard deviation of the statistic",
    ),
)
SHAPES = {"scan_heads": _HEADS, "scan_head": _HEAD, "scan_differences": _DIFFERENCES}
LEVEL = 0.05  # the probability that any of the numbers that are said to differ does so by chance
_ROUNDING, _UNLIKE = 1e-5, 1.25  # of a number: deviations below are none; of a length: others above change numbers
_SHOWN, _ROWS_SHOWN = 20, 14
_STRONGEST, _DECILES = 5, np.arange(9, 0, -1) / 10
_WHOLE, _AROUND = 300, 60  # characters of a text that is shown whole; around query and key
_KINDS = tuple(kind.name for kind in KINDS)


def _corpus(scan: ScanResults) -> tuple[dict[str, Table], str]:
    counts, files = scan.progress, [str(file["name"]) for file in scan.options["files"]]
    about = {"folder": scan.name, "model": scan.options["model"]}
    about |= {name: counts[name] for name in _CORPUS["corpus"][2:]}
    reasons = counts["reasons"]
    words = f"over {counted(counts['documents'], 'document')}, {counts['tokens']:,} tokens"
    if "parts" not in scan.options:
        words += " so far"
    elif counts["missing"]:
        words += f", {counts['missing']:,} of {counted(scan.options['parts'], 'part')} not done"
    if reasons:
        named = listed([f"{count:,} {excerpt(reason, 40)}" for reason, count in reasons.items()], 4)
        words += f", {counted(counts['rejected'], 'record')} not read ({named})"
    rejected = Table({"reason": list(reasons), "count": list(reasons.values())})
    return {"corpus": Table.of([about]), "rejected": rejected}, f"{words}: {excerpt(listed(files, 3), 60)}"


def _show_head(scan: ScanResults, row: Row) -> Next:
    return Next("scan", ("show", scan.name), ("--head", head_choice(row)), takes_model=False)


def _plain(numbers: dict[str, np.ndarray], at: Any, names: tuple[str, ...]) -> Row:
    values = {name: numbers[name][at].item() for name in names}
    return {name: None if isinstance(value, float) and isnan(value) else value for name, value in values.items()}


def _of_kind(scan: ScanResults, kind: str, at: int) -> Row:
    return _plain(scan.kinds, (_KINDS.index(kind), at), _KIND) if kind in _KINDS else dict.fromkeys(_KIND)


def _head_rows(scan: ScanResults) -> list[Row]:
    named = enumerate(zip(scan.places, scan.kind, strict=True))
    return [place | {"kind": kind} | _of_kind(scan, kind, at) for at, (place, kind) in named]


def _clearest(row: Row) -> tuple[int, float]:
    return (2, 0.0) if row["share"] is None else (int(KINDS[_KINDS.index(row["kind"])].rank != CONTENT), -row["share"])


def _examples(scan: ScanResults, at: int) -> list[Row]:
    """The strongest row of the five documents with the most of the head's kind, and of one at every decile."""
    weights = scan.values("peak_weight")[:, at]
    of = scan.values(SHARES[scan.kind[at]])[:, at] if scan.kind[at] in SHARES else weights
    known = np.flatnonzero(~np.isnan(of) & ~np.isnan(weights))
    order = known[np.lexsort((known, -weights[known], -of[known]))].tolist()  # the largest first
    if not order:
        return []
    last = len(order) - 1
    ranks = sorted({*range(min(_STRONGEST, last + 1)), *(round((1 - decile) * last) for decile in _DECILES)})
    return [{"percentile": 100 * (1 - rank / max(1, last))} | _example(scan, order[rank], at) for rank in ranks]


def _example(scan: ScanResults, document: int, at: int) -> Row:
    """The strongest row of a head in a document, with the text around its query and its key."""
    numbers = np.repeat([*scan.parts], [about["documents"] for about in scan.parts.values()])
    number, first = int(numbers[document]), (document - int((numbers < numbers[document]).sum())) * len(scan.places)
    with parse_errors(f"{excerpt(scan.name)}, part {number}", DAMAGED):
        table = scan.folder.open(number)[1].read([*_WHERE, *PEAK, "text", "starts", "ends"])
        said, peak = table.slice(first, 1).to_pylist()[0], table.slice(first + at, 1).to_pylist()[0]
        text, where = said["text"], {name: said[name] for name in _WHERE}
        cell = where | {name: peak[f"peak_{name}"] for name in ("weight", "query", "key")}
        spans = {name: (said["starts"][cell[name]], said["ends"][cell[name]]) for name in ("query", "key")}
        names = {f"{name}_token": text[max(first, 0) : max(last, 0)].strip() for name, (first, last) in spans.items()}
    start, end = 0, len(text)
    if end > _WHOLE:
        start, end = max(0, min(spans.values())[0] - _AROUND), max(spans.values())[1] + _AROUND
        if end - start > _WHOLE:  # far apart: the query alone
            start, end = max(0, spans["query"][0] - _WHOLE // 2), spans["query"][1] + _WHOLE // 2
    return cell | names | {"text": text[start:end], "whole": len(text[start:end]) == len(text)}


def differences_of(
    one: ScanResults, other: ScanResults, statistic: str | None = None, shown: int | None = None
) -> Answer:
    """The differences of two scans: every statistic of every head that both have, and the kinds that changed."""
    theirs = {tuple(place.items()): at for at, place in enumerate(other.places)}
    pairs = [(at, theirs[key]) for at, place in enumerate(one.places) if (key := tuple(place.items())) in theirs]
    if not pairs:
        both = f"the scans in {excerpt(one.name)} and {excerpt(other.name)}"
        raise InputError(f"{both} have no head in common", "scans of models of one architecture can be compared")
    contents = [[(at, of.get("content"), of["documents"]) for at, of in scan.parts.items()] for scan in (one, other)]
    same, rows, spread = contents[0] == contents[1], list[Row](), dict[str, float]()
    for name in [each.name for each in STATISTICS] if statistic is None else [statistic]:
        values = (scan.values(name)[:, [pair[side] for pair in pairs]] for side, scan in enumerate((one, other)))
        tested, varies = _tested(*values, paired=same)
        spread[name] = float(np.nanstd(tested["document_mean"][varies])) if varies.any() else 0.0
        for row in np.flatnonzero(varies).tolist():
            rows.append(one.places[pairs[row][0]] | {"statistic": name} | _plain(tested, row, _TESTED))
    for number, adjusted in zip(rows, holm([row["p_value"] for row in rows]).tolist(), strict=True):
        number |= {"adjusted_p_value": adjusted, "differs": adjusted < LEVEL}
    rows.sort(key=lambda row: (not row["differs"], -abs(row["difference"]) / (spread[row["statistic"]] or 1.0)))
    heads = _head_rows(one)
    order = sorted(pairs, key=lambda pair: _clearest(heads[pair[0]]))
    changed = [(at, to) for at, to in order if one.kind[at] != other.kind[to]]
    kinds = [one.places[at] | {"kind": one.kind[at], "other_kind": other.kind[to]} for at, to in changed]
    (tables, words), (others, other_words) = _corpus(one), _corpus(other)
    differ, alone = sum(row["differs"] for row in rows), len(one.places) + len(other.places) - 2 * len(pairs)
    run = {"test": "paired" if same else "welch", "level": LEVEL, "compared": len(rows), "differ": differ}
    run["unmatched_heads"] = alone
    test = "same documents: paired test" if same else "other documents: Welch's test"
    findings = [f"{differ:,} of {len(rows):,} numbers differ significantly"]
    findings += [f"{test}, family-wise error rate {LEVEL:.0%} (Holm 1979)"]
    findings += [f"{counted(len(kinds), 'head')} of another kind"] * bool(kinds)
    lengths = [scan.progress["tokens"] / scan.progress["documents"] for scan in (one, other)]
    if max(lengths) > _UNLIKE * min(lengths):
        findings += ["documents of {:.0f} and {:.0f} tokens: many numbers depend on length".format(*lengths)]
    findings += [f"{counted(alone, 'head')} in one scan only"] * bool(alone)
    tables |= {"corpus": Table.of([*tables["corpus"], *others["corpus"]])}
    return Answer(
        _DIFFERENCES,
        (*findings, words, f"against {other.name} {other_words}"),
        {"differences": Table.of(rows), "kinds": Table.of(kinds), "run": Table.of([run]), **tables},
        shown=min(_SHOWN, differ) if shown is None else shown,
        next=_show_head(other, rows[0]) if rows else None,
    )


def _tested(first: np.ndarray, second: np.ndarray, *, paired: bool) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Student's paired test of the same documents, or Welch's, by head, and where numbers `[documents, heads]` vary."""
    one, two = estimates(first), estimates(second)
    freedoms = np.stack([x["documents"] - 1 for x in (one, two)])
    variances = np.stack([x["standard_deviation"] ** 2 for x in (one, two)])
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = variances / (freedoms + 1)
        freedom = squares.sum(axis=0) ** 2 / (squares**2 / freedoms).sum(axis=0)
        error, difference = np.sqrt(squares.sum(axis=0)), two["document_mean"] - one["document_mean"]
        if paired:
            apart = estimates(second.astype(np.float64) - first)
            error, freedom = apart["standard_deviation"] / np.sqrt(apart["documents"]), apart["documents"] - 1
        deviation = np.sqrt((freedoms * variances).sum(axis=0) / freedoms.sum(axis=0))
        freedom = np.where(np.isnan(freedom), freedoms.sum(axis=0), freedom)
        p_value = np.where(difference == 0, 1.0, two_sided_p(difference / error, freedom))
        certain = deviation <= _ROUNDING * np.maximum(np.abs(one["document_mean"]), np.abs(two["document_mean"]))
        effect = np.where(difference == 0, 0.0, np.where(certain, np.nan, difference / deviation))
    width = ci_half_width(error**2 * (freedom + 1), freedom + 1)
    ends, means = (difference - width, difference + width), (one["document_mean"], two["document_mean"])
    varies = np.maximum(deviation, np.abs(difference)) > np.finfo(np.float32).eps * np.abs(means).max(axis=0)
    return dict(zip(_TESTED, (*means, difference, *ends, effect, p_value), strict=True)), varies


class Scan(ScanResults):
    """A scan's folder, opened: the numbers of every head over its documents, as answers."""

    def show(self, ranking: Ranking | None = None, kind: str | None = None, top: int | None = None) -> Answer:
        """The heads in the order of `ranking`, else by kind; of one `kind` alone if that is given; the first `top`."""
        if kind is not None and kind not in KIND_NAMES.values():
            raise InputError(f"--kind {excerpt(kind, 40)!r} is unknown", f"one of {', '.join(_KINDS)}")
        heads, (tables, words), counts, unsure = _head_rows(self), _corpus(self), Counter(self.kind), 0
        named = [f"{number} {name}" for name, number in counts.most_common() if name in _KINDS]
        every = counted(len(heads), "head")
        if ranking is not None:
            (statistic,) = (each for each in STATISTICS if each.name == ranking.column)
            numbers = estimates(self.values(ranking.column), quantiles=True)
            rows = [head | _plain(numbers, at, _SORTED) for at, head in enumerate(heads)]
            rows = [row for row in rows if kind in (None, row["kind"])]
            rows = ranking.of(rows, lambda row: nan if row["document_mean"] is None else row["document_mean"])
            missing = statistic.missing(numbers["document_mean"])
            rows = [] if missing else rows[:top]
            finding = missing or f"{len(rows)} of {every} {ranking.words}"
        else:
            rows = [head for head in sorted(heads, key=_clearest) if kind in (None, head["kind"])][:top]
            unsure = sum((row["certainty"] or 1.0) < 0.95 for row in rows)
            finding = f"{sum(counts[name] for name in _KINDS)} of {every} are of a kind: {listed(named, 3)}"
            if kind is not None:
                finding = f"{counts[kind]} of {every} {'is' if counts[kind] == 1 else 'are'} of the kind {kind}"
            elif not named:
                finding = "no head is of any kind" if counts[KIND_NAMES[NOTHING]] else "too few tokens to name heads"
        kinds = Table.of({"kind": name, "count": number} for name, number in counts.most_common())
        return Answer(
            _HEADS if ranking is None else _BY_NUMBER,
            (finding, *[f"{counted(unsure, 'name')} less than 95 % certain"] * bool(unsure), words),
            {"heads": Table.of(rows), "kinds": kinds, **tables},
            shown=top or _SHOWN,
            next=_show_head(self, rows[0]) if rows else None,
        )

    def head(self, name: str) -> Answer:
        """All that is known of one head, such as "18.6" or "cross:3.0": statistics, kinds, examples."""
        names = [head_choice(place) for place in self.places]
        if name not in names:
            raise InputError(f"the scan has no head {excerpt(name, 40)}", f"it has {names[0]} to {names[-1]}")
        at = names.index(name)
        place, kind, (tables, words) = self.places[at], self.kind[at], _corpus(self)
        head = place | {"kind": kind} | _of_kind(self, kind, at)
        statistics = []
        for each in STATISTICS:
            values = self.values(each.name)
            row = _plain(estimates(values[:, at : at + 1], quantiles=True), 0, ("documents", *_ESTIMATE))
            if row["documents"] and not each.says_nothing(values.mean(axis=0)):
                statistics.append(place | {"statistic": each.name} | row)
        kinds = [{"kind": each, **_of_kind(self, each, at), "named": each == kind} for each in _KINDS]
        kinds = [row for row in kinds if row["documents"]]
        kinds.sort(key=lambda row: -(row["share"] or 0) / (row["baseline"] or 1))
        examples = [place | row for row in _examples(self, at)]
        certainty = "" if head["certainty"] is None else f", {head['certainty']:.0%} certain"
        finding = f"head {name} is {'of no kind' if kind == 'none' else kind}"
        if head["share"] is not None:
            finding = f"head {name} is a{'n' * (kind == 'induction')} {kind} head{certainty}: share {head['share']:.1%}"
        onwards = Next("scan", ("show", self.name), ("--kind", kind), takes_model=False)
        whole = [each["text"] for each in examples if each["whole"] and visible(each["text"]) == each["text"]]
        if whole:
            onwards = Next("matrix", (whole[0],), ("-m", str(self.options["model"]), "-H", name), takes_model=False)
        rows = {"examples": examples, "head": [head], "statistics": statistics, "kinds": kinds}
        named = {name: Table.of(of) for name, of in rows.items()}
        return Answer(_HEAD, (finding, words), {**named, **tables}, shown=_ROWS_SHOWN, next=onwards)


open_scan = Scan
