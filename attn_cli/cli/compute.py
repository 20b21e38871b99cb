"""attn compute: attention from scratch on the user's own matrices."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from attn_cli.call import Call
from attn_cli.cli.kit import options as o
from attn_cli.cli.kit.compute_options import Problem, takes_problem
from attn_cli.cli.kit.memory import check_room
from attn_cli.cli.kit.run import picked
from attn_cli.cli.kit.shared_options import OutputOptions, takes_output
from attn_cli.cli.kit.stderr import tell
from attn_cli.errors import ExitCode, InputError
from attn_cli.selection import Selection
from attn_cli.sources.matrices import Matrices, open_matrices
from attn_cli.sources.matrices.expected import expected_of
from attn_cli.summaries.answers.check import TOLERANCES, Check, CheckOutput
from attn_cli.summaries.answers.decode import WalkDecoding
from attn_cli.summaries.answers.steps import WalkSteps
from attn_cli.summaries.reduce import Reducer, Summary, reduce
from attn_cli.summaries.reducers.masked import MaskedRows
from attn_cli.summaries.reducers.matrix import FullMatrix
from attn_cli.summaries.reducers.output import KeepOutput, PassOutput
from attn_cli.summaries.reducers.pooled import PooledMatrix
from attn_cli.summaries.report import Report
from attn_cli.views import OutputView, View
from attn_cli.views.drawing.palette import SCALES

Make = Callable[[Call], Sequence[Reducer]]  # the reducers of one call


@takes_problem
@takes_output
def compute(
    problem: Problem,
    shown: OutputOptions,
    steps: o.Steps = False,
    token: o.TokenPick = None,
    decode: Annotated[
        bool, typer.Option("--decode", help="Causal, one row at a time from a key/value cache, and what that saves.")
    ] = False,
    expect: Annotated[
        str | None,
        typer.Option("--expect", help="Check this output; exit code 1 if it is wrong.", metavar="FILE"),
    ] = None,
    expect_weights: Annotated[
        str | None, typer.Option("--expect-weights", help="Check these weights too, or alone.", metavar="FILE")
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option("--tol", help="Tolerance of the check, times max(1, |number|).", min=0.0, metavar="NUMBER"),
    ] = None,
    head: o.Head = "all",
    pool: Annotated[
        str, typer.Option("--pool", help="How large matrices shrink on a screen: max or mean.", metavar="HOW")
    ] = "max",
    color_scale: Annotated[
        str, typer.Option("--color-scale", help="linear, sqrt, log or row.", metavar="SCALE")
    ] = "linear",
) -> ExitCode:
    """Attention from scratch on your own matrices or words.

    Scaled dot-product attention and its variants: prints scores, weights and output; -o out.npz saves them.

    \b
    Examples:
      attn compute --q q.npy                        self-attention: k and v are q
      attn compute --q q.npy --k k.npy --v v.npy --mask causal -o out.npz
      attn compute --x x.csv --wq wq.csv --wk wk.csv --wv wv.csv --heads 2
      attn compute "the cat sat" -m toy:the-cat-sat --mask causal
      attn compute "he sat" --random-projections 7 --heads 4 --kv-heads 2
      attn compute --q a.npz:q --k a.npz:k --v a.npz:v --json | jq .result.output
      attn compute "the cat sat down" --decode      with a key/value cache
      attn compute --q q.npy --k k.npy --v v.npy --expect mine.npy   is it right?
      cat q.npy | attn compute --q - -o output.npy
    """
    o.one_of(pool, ("max", "mean"), "--pool")
    o.one_of(color_scale, SCALES, "--color-scale")
    selection = o.selection("all", head)
    checks = expect is not None or expect_weights is not None
    asked = [name for name, on in (("--steps", steps), ("--decode", decode), ("--expect", checks)) if on]
    if len(asked) > 1:
        raise InputError(f"{' and '.join(asked)} at once", "one at a time")
    if token is not None and not steps:
        raise InputError("--token picks the query of a walk", "add --steps")
    if tol is not None and not checks:
        raise InputError("--tol is the tolerance of a check", "add --expect FILE")
    with shown.view() as view:
        matrices = open_matrices(problem.options(causal=decode, precise=checks))
        if steps:
            rows = None if token is None else picked(matrices.labelled, token)[0]
            report = _report("steps", matrices, selection, lambda _: [WalkSteps(rows)], color_scale)
        elif decode:
            report = _report("decode", matrices, selection, lambda _: [WalkDecoding()])
        elif checks:
            report = _checked(matrices, selection, expect, expect_weights, tol)
        else:
            make = (
                _to_file(matrices, selection, view) if isinstance(view, OutputView) else _reducers(matrices, view, pool)
            )
            report = _report("compute", matrices, selection, make, color_scale)
        for note in report.warnings:
            tell(note, quiet=shown.quiet)
        view.show(report)
    verdicts = [part for summary in report.summaries if (part := summary.part(Check)) is not None]
    return ExitCode.DONE if all(verdict.right for verdict in verdicts) else ExitCode.NEGATIVE


def _checked(
    matrices: Matrices, selection: Selection, output: str | None, weights: str | None, tol: float | None
) -> Report:
    """The user's output and weights against the definition."""
    given = None if output is None else expected_of(output, "output", matrices)
    mixed = None if weights is None else expected_of(weights, "weights", matrices)
    seen = [x for x in (given, mixed) if x is not None]
    tolerance = max(TOLERANCES[min(x.itemsize, 8)] for x in seen) if tol is None else tol
    check = CheckOutput(
        None if given is None else given.values,
        None if mixed is None else mixed.values,
        tolerance,
        joined=matrices.joined,
    )
    matrices = replace(matrices, notes=matrices.notes + tuple(x.note for x in seen if x.note))
    return _report("check", matrices, selection, lambda _: [check])


def _report(
    command: str,
    matrices: Matrices,
    selection: Selection,
    reducers: Make,
    color_scale: str = "linear",
) -> Report:
    found: list[Summary] = []

    def visit(call: Call) -> None:
        found.append(reduce(call, *reducers(call)))

    matrices.each(selection, visit)
    options = {
        "scale": color_scale,
        "lead": matrices.lead,
        "head_axis": matrices.head_axis,
        "joined": matrices.joined,
        "made": {"q": matrices.q, "k": matrices.k, "v": matrices.v} if matrices.made else {},
    }
    return Report(command, matrices.about, matrices.prompt, tuple(found), matrices.notes, options)


def _reducers(matrices: Matrices, view: View, pool: str) -> Make:
    """Scores, weights, output and the count of rows that may attend to nothing, as large as the view takes them."""
    room = view.room
    if room is None:
        count, (n, m) = math.prod(matrices.q.shape[:-2]), (matrices.q.shape[-2], matrices.k.shape[-2])
        what = f"{2 * count:,} matrices of {n:,} x {m:,}"
        check_room(2 * count * n * m * matrices.q.itemsize, what, "-f npy keeps the output alone, a screen pools")

    def make(call: Call) -> Sequence[Reducer]:
        masked = [MaskedRows()] if matrices.rules.softmax else []
        if room is None:
            return [FullMatrix(weights=True, scores=True), _output(matrices), *masked]
        return [
            *(PooledMatrix(*room, scores=scores, pooling=pool) for scores in (True, False)),
            _output(matrices),
            *masked,
        ]

    return make


def _to_file(matrices: Matrices, selection: Selection, view: OutputView) -> Make:
    """The output alone: row by row into the file if it is done once it leaves a band, else kept until all is there."""
    rows = None
    h = len(selection.pick_heads(matrices.q.shape[-3]))
    if not matrices.joined and matrices.value_up is None:
        size = (matrices.q.shape[-2], matrices.v.shape[-1])
        shape = (*matrices.lead, *((h,) if matrices.head_axis else ()), *size)
        rows = view.rows(shape, max(matrices.q.itemsize, 4))

    def make(call: Call) -> Sequence[Reducer]:
        if rows is None:
            return [_output(matrices)]
        before = call.place.text * h
        return [PassOutput(lambda head, first, values: rows.write(before + head, first, values))]

    return make


def _output(matrices: Matrices) -> KeepOutput:
    return KeepOutput(joined=matrices.joined, projection=matrices.projection, value_up=matrices.value_up)
