"""Rows of a dump's weights held against those of the model, beyond what the dump's own precision explains."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.errors import InputError
from attn_cli.kernel.definition.rule import Rule
from attn_cli.model.stations import Reference, Station, station
from attn_cli.prompt import Token
from attn_cli.summaries.answers.recorded_arrays import given_call
from attn_cli.summaries.bisect.dump_precision import precision_of_arrays
from attn_cli.summaries.bisect.errors import UNITS, Errors, Noise, errors_of, root_mean_squares
from attn_cli.summaries.bisect.operands import DumpedOperands
from attn_cli.summaries.calls.given_scores import call_of_scores
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import FullMatrix, Matrix

ROWS = 64  # of each layer, evenly spaced, at most
_FEWEST = 4  # where weights are many
_CELLS = 2**26  # weights of the model that are kept, of all layers
_DRAWS = 4  # ways in which numbers are rounded before a layer is called wrong


@dataclass(frozen=True)
class FarthestRow:
    """The row of attention weights that is farthest from the model's in a dump, arrays that another engine saw.

    difference  the largest |dump's weight - model's| in that row, or of all compared rows where none is wrong
    over        the root mean square difference of the row over 4 times that of rounding alone: above 1 is wrong
    precision   that of the dump, in which rounding was measured
    layer, head, row  where it is
    layers      how many layers were compared
    rows        how many rows of each
    """

    difference: float
    over: float
    precision: str
    layer: int
    head: int
    row: int
    layers: int
    rows: int

    @property
    def is_wrong(self) -> bool:
        """True if `over` is above 1: the row differs by more than 4 times what rounding alone makes of it."""
        return self.over > 1


@dataclass(frozen=True, eq=False)
class _HeldLayer:
    """The rows of a layer.

    right       the model's weights `[rows, h, m]`
    errors      of the dump's
    difference  the largest of a row `[rows, h]`
    """

    rule: Rule
    right: np.ndarray
    errors: Errors
    difference: np.ndarray


@dataclass(eq=False)
class DumpCheck:
    """Compares the weights that a dump's queries and keys give with a model's, layer by layer of its pass over a text.

    A dump is the arrays that another engine saw; up to 64 rows a layer are compared, evenly spaced.

    ids  the token ids of the text
    """

    ids: Sequence[int]
    _held: dict[int, _HeldLayer] = field(default_factory=dict)
    _rows: list[int] = field(default_factory=list)
    _precision: str = ""

    def add(self, call: AttentionCall, operands: DumpedOperands, rule: Rule) -> None:
        """Compare the weights of one layer by the dump's q and k, or scores (`operands`), with the model's in `call`.

        rule  the layer's scale, mask and the like, as NumPy arrays
        """
        layer = call.place.layer
        given = call_given(operands, layer, rule, call.keys)
        if not self._rows:
            self._precision = precision_of_arrays(operands.arrays[:: max(1, len(operands.arrays) - 1)])
            fitting = _CELLS // max(1, len(operands.layers) * call.h * call.m)
            count = min(max(_FEWEST, min(ROWS, fitting)), given.n)
            first = call.n - given.n
            self._rows = [first + int(row) for row in np.unique(np.linspace(0, given.n - 1, count).astype(int))]
        right = _weights(call, self._rows)
        theirs = _weights(given, [row - (call.n - given.n) for row in self._rows])
        with np.errstate(invalid="ignore"):
            difference = np.nan_to_num(np.abs(theirs - right), nan=np.inf).max(axis=2)
        self._held[layer] = _HeldLayer(rule, right, errors_of(theirs, right, 0), difference)

    def farthest(self, reference: Reference) -> FarthestRow | None:
        """The row whose weights differ most from the model's, relative to rounding; None where no layer was added.

        Rounding is measured by passes of `reference`, the model, in the precision of the dump: one, and up to three
        more while the row seems wrong.
        """
        noises: dict[int, list[Noise]] = {layer: [] for layer in self._held}
        found = None
        for draw in range(_DRAWS if self._held else 0):
            for layer, noise in self._noise(reference, draw).items():
                noises[layer].append(noise)
            found = max((self._of_layer(layer, noises[layer]) for layer in self._held), key=lambda one: one.over)
            if not found.is_wrong:
                break
        if found is None or found.is_wrong:
            return found
        difference = max(float(held.difference.max()) for held in self._held.values())
        return replace(found, difference=difference)

    def _of_layer(self, layer: int, noises: Sequence[Noise]) -> FarthestRow:
        held = self._held[layer]
        over = held.errors.over(noises)
        at, head = np.unravel_index(int(over.argmax()), over.shape)
        return FarthestRow(
            float(held.difference[at, head]), float(over[at, head]), self._precision, layer, int(head),
            self._rows[int(at)], len(self._held), len(self._rows),
        )  # fmt: skip

    def _noise(self, reference: Reference, draw: int) -> dict[int, Noise]:
        """How far the weights of each layer are from the model's in a pass in the dump's precision."""
        known = reference.shapes(self.ids)
        wanted: set[Station] = set()
        for layer in self._held:
            for side in "qk":
                rotated, plain = station(f"{side}_rotated", layer), station(side, layer)
                wanted |= {rotated if rotated in known else plain} & known.keys()
        noise: dict[int, Noise] = {}
        queries: dict[int, np.ndarray] = {}

        def arrive(at: Station, x: np.ndarray) -> None:
            if at.kind.startswith("q"):
                queries[at.layer] = x.copy()
                return
            held, q = self._held[at.layer], queries.pop(at.layer)
            call = given_call(at.layer, q.swapaxes(0, 1), x.swapaxes(0, 1), None, held.rule, None)
            apart = root_mean_squares(_weights(call, self._rows) - held.right)
            noise[at.layer] = Noise(np.arange(len(self._rows)), apart, UNITS[self._precision])

        reference.run(self.ids, wanted, arrive, precision=self._precision, draw=draw)
        if missing := sorted(self._held.keys() - noise.keys()):
            raise InputError(f"layer {missing[0]} shows no queries and keys, whose rounding --check measures",
                             "record without --check")  # fmt: skip
        return noise


def call_given(operands: DumpedOperands, layer: int, rule: Rule | None, tokens: tuple[Token, ...]) -> Call:
    """The attention of one layer by the q and k that another engine dumped, or else by the scores (`operands`).

    rule  the layer's scale, mask and the like; None for causal attention at scale 1 / sqrt(d). Scores need none
    """
    if operands.shows_products:
        q, k = (operands.read(side, layer) for side in "qk")
        return given_call(layer, q, k, None, operands.last_rows(rule, layer), tokens)
    return call_of_scores(layer, operands.read_scores(layer), tokens)


def _weights(call: Call, rows: list[int]) -> np.ndarray:
    """The weights of some rows `[rows, h, m]` in float64."""
    matrix = reduce(call, FullMatrix(rows=rows)).part(Matrix)
    assert matrix is not None
    return np.asarray(matrix.weights, np.float64).swapaxes(0, 1)
