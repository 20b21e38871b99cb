"""attn knock --edges: which writers a head's effect on the answer rests on, one path at a time, with norms held.

A writer is taken out of what the head reads, and of nothing else: of its query in the row that chooses the answer, of
all its keys, or of all its values. The head's output in that row is computed again, put in place of its own, and the
rest of the model runs as ever (path patching, Wang et al. 2022).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from attn_cli.arrays import at_least_float32, to_numpy
from attn_cli.errors import InputError, LimitError
from attn_cli.fields import COUNT, NUMBER, POSITIVE, SHARE, STREAM, TEXT, Field, Object, Output, Rows, made, or_none
from attn_cli.model.intervention import Experiment, HeadOutput, HeadPlace, Intervention, NoiseFloor, Outcome, Target
from attn_cli.model.score_writers import ReadsWriters, Writer, WrittenHead
from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.answers.row_scores import RowScores, row_scores
from attn_cli.summaries.report import Answer

Through = Literal["query", "keys", "values"]
_MOST_BYTES = 2**30  # of all keys and values by writer


class Edge(NamedTuple):
    """One writer taken out of what the head reads, and the effect on the answer.

    writer   what adds to the residual stream: the embedding, a head, an MLP, biases ...
    through  what of the head it is taken out of: its "query" in the row that chooses the answer, all "keys" or "values"
    outcome  the change of the answer's log2 p and the like, with the head's output so changed, against the model's own
    """

    writer: Writer
    through: Through
    outcome: Outcome


class _Row(NamedTuple):
    edges: "Edges"
    rank: int
    edge: Edge


_EDGE = (
    Field("rank", COUNT, "0 for the one that the answer needs most"),
    Field("writer", TEXT, "who wrote it", "edge.writer.name"),
    Field("writer_kind", TEXT, "embedding, positions, head, attention, mlp, biases or the name of a module",
          "edge.writer.kind"),
    Field("writer_layer", or_none(COUNT), "the number of its block", "edge.writer.layer"),
    Field("writer_head", or_none(COUNT), "its number, of a head", "edge.writer.head"),
    Field("through", {"enum": ["query", "keys", "values"]}, "what of the head it was taken out of", "edge.through"),
    Field("bits", NUMBER, "log2 p(target) with it taken out, minus log2 p(target); negative where it helped",
          "edge.outcome.bits"),
    Field("kl_bits", POSITIVE, "KL divergence of the whole distribution in that row", "edge.outcome.kl_bits"),
)  # fmt: skip
_HEAD = (
    replace(STREAM, value=lambda edges: None if edges.place.stream == "self" else edges.place.stream),
    Field("layer", COUNT, "the model's own block number", "place.layer"),
    Field("head", COUNT, "the model's own head number", "place.head"),
    Field("row", COUNT, "the row that chooses the answer, in which its output was replaced", "row.index"),
    Field("row_token", TEXT, "its text", "row.text"),
)
FIELDS = (
    *_HEAD,
    Field("target", TEXT, "the answer", lambda edges: edges.target.tokens[0].text),
    Field("probability", SHARE, "of the answer in the baseline run", "target.probability"),
    Field("ablated_bits", NUMBER, "the same as bits with the whole head's output 0", "ablated.bits"),
    Field("noise_floor", Object((Field("effect", POSITIVE), Field("kl_bits", POSITIVE))),
          "the largest effects of untouched copies, one of them with the head's own output put in its place"),
    Field("edges", Rows(_EDGE), "every writer through query, keys and values", "rows"),
)  # fmt: skip
OUTPUT = Output(
    "attn.edges/1",
    "attn knock --edges --json",
    "The writers that a head's effect on the answer rests on: each taken out of the head's query, of all its "
    "keys or of all its values, and of nothing else, with norms held; the head's output in the row that "
    "chooses is computed again, and the rest of the model runs.",
    FIELDS,
)


@dataclass(frozen=True, eq=False)
class Edges(Answer):
    """What a head's effect on the answer rests on: each writer through its query, keys and values, most needed first.

    Writers add to the residual stream: the embedding, heads and MLPs of earlier blocks, biases. Most needed is the most
    negative change of log2 p of the answer.

    place    the head that reads what the writers wrote
    row      the token in whose row the head's output was replaced
    target   the answer, the likeliest next token
    ablated  the change of the answer's log2 p, and the like, with the head's output in that row 0
    noise_floor  the largest |change of log2 p| and KL divergence, in bits, of runs with nothing changed: rounding
    shown    how many edges a screen names
    """

    name: ClassVar[str] = "edges"
    fields: ClassVar[Sequence[Field]] = FIELDS
    table: ClassVar[str] = "edges"

    place: HeadPlace
    row: Token
    target: Target
    edges: tuple[Edge, ...]
    ablated: Outcome
    noise_floor: NoiseFloor
    shown: int

    @property
    def rows(self) -> list[_Row]:
        """The edges with ranks from 0, the most needed first.

        An edge is a writer (the embedding, an earlier head or MLP) and what of the head reads it: query, keys or
        values.
        """
        return [_Row(self, rank, edge) for rank, edge in enumerate(self.edges)]

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per edge: the head that reads and its row, then rank, writer, through, bits and kl_bits.

        A writer adds to the residual stream: the embedding, an earlier head or MLP. `bits` is the change of log2 p of
        the answer with the writer taken out of the head's query, keys or values (`through`), `kl_bits` the KL
        divergence of the next token's probabilities without it from those with it.
        """
        lead = made(_HEAD, self)
        yield from ({**lead, **made(_EDGE, row)} for row in self.rows)

    def arrays(self) -> dict[str, np.ndarray]:
        """`writers` (names), `through` ("query", "keys" or "values"), `bits` and `kl_bits` of every edge `[edges]`.

        Most needed edges come first; a writer is the embedding, an earlier head or MLP. `bits` is the change of the
        answer's log2 p without the writer, `kl_bits` the KL divergence, in bits, of the probabilities of all next
        tokens.
        """
        return {
            "writers": np.array([edge.writer.name for edge in self.edges], dtype=np.str_),
            "through": np.array([edge.through for edge in self.edges], dtype=np.str_),
            "bits": np.array([edge.outcome.bits for edge in self.edges], dtype=np.float64),
            "kl_bits": np.array([edge.outcome.kl_bits for edge in self.edges], dtype=np.float64),
        }


def edges_of(
    source: ReadsWriters, experiment: Experiment, prompt: Prompt, place: HeadPlace, shown: int,
    step: Callable[[], None] = lambda: None,
) -> Edges:  # fmt: skip
    """The change of the answer's log2 p, in bits, without each writer in what a head reads, as `Edges`.

    A writer, such as the embedding or an earlier head or MLP, is taken out of the head's query in the row that chooses
    the answer, of all its keys, or of all its values, without change of the layer norm's divisor; the head's output in
    that row is then computed again.

    place  the head
    shown  how many edges a screen names
    step   is called after the query, the keys and the values

    Raises InputError where more than one row chooses the answer, or there is none; LimitError for a text whose keys and
    values by writer take more than 1 GB; LoadError where the head can't be taken apart.
    """
    target = experiment.target
    if target is None or len(experiment.rows) > 1 or len(target.tokens) > 1:
        raise InputError("--edges takes a model that chooses one next token", "leave out --generate and --everywhere")
    row = experiment.rows[0]
    written = source.written_head(prompt, place, row)
    if written.keys.nbytes + written.values.nbytes > _MOST_BYTES:
        raise LimitError(f"keys and values of {len(written.keys):,} tokens by writer take more than 1 GB",
                         "choose a shorter text")  # fmt: skip
    head = _Head(written, row)
    own = experiment.outcomes([_put(place, row, head.output()), Intervention((place,))])
    untouched, ablated = next(own), next(own)
    experiment.noise_floor.add(untouched)
    edges: list[Edge] = []
    sides: tuple[Through, ...] = ("query", "keys", "values")
    for through in sides:
        without = [_put(place, row, head.without(at, through)) for at in range(len(written.writers))]
        outcomes = experiment.outcomes(without)
        edges += [Edge(writer, through, outcome) for writer, outcome in zip(written.writers, outcomes, strict=True)]
        step()
    edges.sort(key=lambda edge: edge.outcome.effect)
    return Edges(place, experiment.tokens[row], target, tuple(edges), ablated, experiment.noise_floor, shown)


def _put(place: HeadPlace, row: int, output: np.ndarray) -> Intervention:
    return Intervention(replaced=(HeadOutput(place, row, tuple(output.tolist())),))


class _Head:
    """One head in one row, and what it would give without a writer."""

    def __init__(self, written: WrittenHead, row: int) -> None:
        self.written = written
        self.scores: RowScores = row_scores(written.call, 0, row)
        self.values = to_numpy(at_least_float32(written.call.v[0])).astype(np.float64)  # [m, e]

    def output(self) -> np.ndarray:
        """The head's output `[e]`."""
        return self.scores.softmax(self.scores.products) @ self.values

    def without(self, writer: int, through: Through) -> np.ndarray:
        """The head's output `[e]` without what its query, its keys or its values have from this writer."""
        written, products = self.written, self.scores.products
        if through == "values":
            return self.scores.softmax(products) @ (self.values - written.values[:, writer])
        query = written.queries.sum(axis=0)
        if through == "keys":
            return self.scores.softmax(products - written.keys[:, writer] @ query) @ self.values
        keys = written.keys.sum(axis=1)
        return self.scores.softmax(products - keys @ written.queries[writer]) @ self.values
