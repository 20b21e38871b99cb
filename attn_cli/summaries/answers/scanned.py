"""What a scan knows of heads: numbers over documents with how certain they are, and what the corpus was."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from attn_cli.text import counted, excerpt, listed


class ScannedPlace(NamedTuple):
    """Which head, and the key head that it reads.

    module, call  which of several modules of a layer, and which run of it; "" and 0 where there is one

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
        """Its name on a command line, with the stream before it where a model has several, and the run after it."""
        name = f"{self.layer}.{self.head}" + (f"/{self.call}" if self.call else "")
        return name if self.stream == "self" else f"{self.stream} {name}"

    def lead(self) -> dict[str, Any]:
        """The fields that every row of output begins with."""
        stream = {} if self.stream == "self" else {"stream": self.stream}
        several = {"module": self.module, "call": self.call} if self.module else {}
        return stream | several | {"layer": self.layer, "head": self.head, "kv_head": self.kv_head}


class Estimate(NamedTuple):
    """A number over documents.

    documents  how many have it
    mean, low, high  its mean, and the ends of the 95 % confidence interval of that
    deviation  its standard deviation over documents
    quantiles  its value at so many hundredths of the documents, by name: p05, p50 ...
    """

    documents: int
    mean: float
    low: float
    high: float
    deviation: float
    quantiles: Mapping[str, float]

    def record(self) -> dict[str, Any]:
        """As an object of JSON."""
        return {"documents": self.documents, "mean": self.mean, "low": self.low, "high": self.high,
                "standard_deviation": self.deviation, **self.quantiles}  # fmt: skip


class KindEstimate(NamedTuple):
    """What a head gives to the targets of one kind, over documents.

    share, share_low, share_high  what targets get of all that sinks don't, with its 95 % confidence interval
    weight     the same of the whole row
    baseline   what uniform attention would give them
    control    what keys as far away get that are no targets; None for most kinds
    named      whether the head is called so
    certainty  how sure it is that its mean over documents is enough for the name, 0 to 1; NaN with one document
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

    def record(self) -> dict[str, Any]:
        """As an object of JSON."""
        return self._asdict()


@dataclass(frozen=True, eq=False)
class ScannedCorpus:
    """What was scanned.

    documents, tokens  that the model read; pieces count as documents
    poison             how many records were not read, by reason
    inputs             the inputs as they were named
    complete           whether the scan came to the end
    """

    documents: int
    tokens: int
    poison: Mapping[str, int]
    inputs: tuple[str, ...]

    def words(self) -> list[str]:
        """The parts of a line about it."""
        words = [f"{self.documents:,} {'document' if self.documents == 1 else 'documents'}", f"{self.tokens:,} tokens"]
        lost = sum(self.poison.values())
        if lost:
            reasons = listed([f"{count:,} {excerpt(reason, 40)}" for reason, count in self.poison.items()], 4)
            words += [f"{counted(lost, 'record')} not read", reasons]
        return words + ([excerpt(listed(self.inputs, 3), 60)] if self.inputs else [])

    def record(self) -> dict[str, Any]:
        """As fields of JSON."""
        return {"documents": self.documents, "tokens": self.tokens, "rejected": dict(self.poison),
                "inputs": list(self.inputs)}  # fmt: skip
