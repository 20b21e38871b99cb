"""How far a shard has come while it is computed, counted layer by layer."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from attn_cli.batch_call import BatchCall, BatchVisit
from attn_cli.call import Call


class Underway(NamedTuple):
    """What is done of a shard that is not finished.

    documents  by the share of the shard's tokens that the model has read
    tokens     that the model has read, those of a layer counted by its share of all layers
    """

    documents: float
    tokens: float


Step = Callable[[Underway], None]
Steps = Callable[[Mapping[int, Underway]], None]  # of all shards under way, by their numbers


class Meter:
    """Counts the tokens of one shard that the model has read, and calls `step` after each layer of a batch.

    layers  that attend
    """

    def __init__(self, layers: int, step: Step) -> None:
        self.layers, self.step = max(1, layers), step
        self._before = Underway(0, 0)  # in earlier groups
        self._group = Underway(0, 1)
        self._finished = 0

    def begin(self, documents: int, tokens: int) -> None:
        """A group of texts: so many documents end with it, and it has so many tokens."""
        self._before = Underway(self._before.documents + self._group.documents, self._before.tokens + self._finished)
        self._group, self._finished = Underway(documents, max(1, tokens)), 0

    def note(self, part: float) -> None:
        """So many tokens of the batch that is being read are done."""
        done = self._finished + part
        documents = self._group.documents * done / self._group.tokens
        self.step(Underway(self._before.documents + documents, self._before.tokens + done))

    def finish(self, tokens: int) -> None:
        """A batch of so many tokens is done."""
        self._finished += tokens
        self.note(0)


class MeteredVisit(BatchVisit):
    """A visitor of the texts of one batch, of so many tokens each, whose progress a meter counts."""

    def __init__(self, visit: BatchVisit, lengths: Sequence[int], meter: Meter) -> None:
        self.visit, self.lengths, self.meter = visit, lengths, meter
        self._cells = 0  # tokens times layers

    def of_batch(self, call: BatchCall) -> bool:
        """Take in all texts of a layer at once, if the visitor can."""
        taken = self.visit.of_batch(call)
        if taken:
            self._count(sum(self.lengths))
        return taken

    def __call__(self, call: Call) -> None:
        """Take in one text of a layer."""
        self.visit(call)
        self._count(self.lengths[call.place.text])

    def _count(self, tokens: int) -> None:
        self._cells += tokens
        self.meter.note(min(self._cells / self.meter.layers, sum(self.lengths)))  # some models attend twice in a layer
