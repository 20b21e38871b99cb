"""Results of a scan: numbers of heads over documents with their confidence intervals, and the corpus."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from attn_cli.fields import CHANCE, COUNT, FLAG, NUMBER, TEXT, Field, each
from attn_cli.text import counted, excerpt, listed


class ScannedPlace(NamedTuple):
    """A head of a scan, by stack (self, encoder, cross ...), layer and number, and the key head that it reads.

    >>> ScannedPlace("self", 18, 6, 2).label, ScannedPlace("cross", 3, 0, 0).label
    ('18.6', 'cross 3.0')
    """

    stream: str
    layer: int
    head: int
    kv_head: int
    module: str = ""
    call: int = 0

    @property
    def label(self) -> str:
        """The head's name on a command line, layer and number, `18.6`; `cross 18.6` in another stack than "self",
        `18.6/1` of a later run of its module in one pass.
        """
        name = f"{self.layer}.{self.head}" + (f"/{self.call}" if self.call else "")
        return name if self.stream == "self" else f"{self.stream} {name}"


PLACE = (
    Field("stream", TEXT,
          "which attention of the model it is: self, encoder, decoder, cross; given where there are several",
          lambda place: None if place.stream == "self" else place.stream, optional=True),
    Field("module", TEXT, "the module's path, where a layer has several", lambda place: place.module or None,
          optional=True),
    Field("call", COUNT, "which run of it, where a layer has several",
          lambda place: place.call if place.module else None, optional=True),
    Field("layer", COUNT, "the model's own block number"),
    Field("head", COUNT, "the model's own head number"),
    Field("kv_head", COUNT, "the key/value head that it reads"),
)  # fmt: skip


class Estimate(NamedTuple):
    """The distribution of a number over documents: mean, interval, quantiles.

    documents  how many have it
    mean, low, high  its mean, and the ends of the 95 % confidence interval of the mean
    deviation  its standard deviation over documents
    quantiles  by name (q05, q25, q50 ...) the value that so many hundredths of the documents have at most
    """

    documents: int
    mean: float
    low: float
    high: float
    deviation: float
    quantiles: Mapping[str, float]


def _quantile(name: str) -> Callable[[Estimate], float]:
    return lambda estimate: estimate.quantiles[name]


ESTIMATE = (
    Field("documents", COUNT, "documents that have the number"),
    Field("mean", NUMBER, "mean over documents"),
    Field("low", NUMBER, "the lower end of the 95 % confidence interval of the mean"),
    Field("high", NUMBER, "its upper end"),
    Field("standard_deviation", NUMBER, "standard deviation over documents", "deviation"),
    *(
        Field(name, NUMBER, f"{int(name[1:])} % of documents have at most this", _quantile(name))
        for name in ("q05", "q25", "q50", "q75", "q95")
    ),
)


class KindEstimate(NamedTuple):
    """How much a head gives to the keys that define one kind of head (its targets), as means over documents.

    documents  how many have targets of the kind
    share, share_low, share_high  what targets get of all that sinks don't, with its 95 % confidence interval
    weight     what targets get of the whole row
    baseline   what uniform attention would give them
    control    what as many random keys get that are as far away and no targets; None for most kinds
    named      whether the head is called by this kind
    certainty  how sure it is that its mean over documents is enough for the name, 0 to 1
    """

    kind: str
    documents: int
    share: float
    share_low: float
    share_high: float
    weight: float
    baseline: float
    control: float | None
    named: bool
    certainty: float


KIND_ESTIMATE = (
    Field("kind", TEXT, "the kind's name"),
    Field("documents", COUNT, "documents with rows of which the kind has targets"),
    Field("share", NUMBER, "its targets' share of non-sink attention, mean over documents"),
    Field("share_low", NUMBER, "the lower end of the 95 % confidence interval of that"),
    Field("share_high", NUMBER, "its upper end"),
    Field("weight", NUMBER, "the targets' share of all attention"),
    Field("baseline", NUMBER, "what uniform attention would give the targets"),
    Field("control", NUMBER, "weight of other keys at the same distances; null for most kinds"),
    Field("named", FLAG, "true if the head has this name"),
    Field("certainty", CHANCE, "probability that the mean suffices for the name; null with one document"),
)


@dataclass(frozen=True, eq=False)
class ScannedCorpus:
    """The corpus of a scan, as counts.

    documents, tokens  read by the model; a piece of a long document counts as a document
    poison             the number of records that could not be scanned, by reason: "empty", "too long" ...
    inputs             the names of the input files, as the user gave them
    """

    documents: int
    tokens: int
    poison: Mapping[str, int]
    inputs: tuple[str, ...]

    def words(self) -> list[str]:
        """The parts of a line about the corpus: documents, tokens, records not read by reason, input files."""
        words = [f"{self.documents:,} {'document' if self.documents == 1 else 'documents'}", f"{self.tokens:,} tokens"]
        lost = sum(self.poison.values())
        if lost:
            reasons = listed([f"{count:,} {excerpt(reason, 40)}" for reason, count in self.poison.items()], 4)
            words += [f"{counted(lost, 'record')} not read", reasons]
        return words + ([excerpt(listed(self.inputs, 3), 60)] if self.inputs else [])


CORPUS = (
    Field("documents", COUNT, "documents that the model read; pieces count as documents"),
    Field("tokens", COUNT, "their tokens"),
    Field("rejected", {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}},
          "how many records were not read, by reason", "poison"),
    Field("inputs", each(TEXT), "the files as they were named"),
)  # fmt: skip
