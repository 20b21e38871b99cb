"""attn compute: attention from scratch on the user's own matrices."""

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from attn_cli.call import Call, Selection
from attn_cli.cli import options as o
from attn_cli.cli.answer import picked
from attn_cli.cli.problem import Problem, takes_problem
from attn_cli.cli.shared import opened_view
from attn_cli.cli.talk import tell
from attn_cli.errors import ExitCode, InputError
from attn_cli.sources.matrices import Matrices, open_matrices
from attn_cli.summaries.matrix import FullMatrix
from attn_cli.summaries.output import KeepOutput
from attn_cli.summaries.pooled import PooledMatrix
from attn_cli.summaries.reduce import Reducer, Summary, reduce
from attn_cli.summaries.report import Report
from attn_cli.summaries.steps import WalkSteps
from attn_cli.views import View
from attn_cli.views.palette import SCALES


@takes_problem
def compute(
    problem: Problem,
    steps: o.Steps = False,
    token: o.TokenPick = None,
    head: o.Head = "all",
    pool: Annotated[
        str, typer.Option("--pool", help="How large matrices shrink on a screen: max or mean.", metavar="HOW")
    ] = "max",
    color_scale: Annotated[
        str, typer.Option("--color-scale", help="linear, sqrt, log or row.", metavar="SCALE")
    ] = "linear",
    format: o.Format = None,
    json: o.Json = False,
    output: o.Output = None,
    force: o.Force = False,
    color: o.Color = "auto",
    quiet: o.Quiet = False,
) -> ExitCode:
    """Attention from scratch on your own matrices or words.

    Scaled dot-product attention and its variants: prints scores, weights and output; -o out.npz saves them.

    \b
    Examples:
      attn compute --q q.npy                        self-attention: k and v are q
      attn compute --q q.npy --k k.npy --v v.npy --mask causal -o out.npz
      attn compute --x x.csv --wq wq.csv --wk wk.csv --wv wv.csv --heads 2
      attn compute "the cat sat" -m toy:the-cat-sat --mask causal
      attn compute "he sat on the river bank" --random-projections 7 --heads 4 --kv-heads 2
      attn compute --q all.npz:q --k all.npz:k --v all.npz:v --json | jq .result.output
      cat q.npy | attn compute --q - -o output.npy
    """
    o.one_of(pool, ("max", "mean"), "--pool")
    o.one_of(color_scale, SCALES, "--color-scale")
    selection = o.selection("all", head)
    with opened_view(format, json, output, color, force) as view:
        matrices = open_matrices(problem.options())
        for note in matrices.notes:
            tell(note, quiet=quiet)
        if token is not None and not steps:
            raise InputError("--token picks the query of a walk", "add --steps")
        if steps:
            rows = None if token is None else picked(matrices.labelled, token)[0]
            view.show(_report("steps", matrices, selection, lambda: [WalkSteps(rows)], color_scale))
        else:
            view.show(_report("compute", matrices, selection, lambda: _reducers(matrices, view, pool), color_scale))
    return ExitCode.DONE


def _report(
    command: str, matrices: Matrices, selection: Selection, reducers: Callable[[], Sequence[Reducer]], color_scale: str
) -> Report:
    found: list[Summary] = []

    def visit(call: Call) -> None:
        found.append(reduce(call, *reducers()))

    matrices.each(selection, visit)
    options = {
        "scale": color_scale,
        "lead": matrices.lead,
        "head_axis": matrices.head_axis,
        "joined": matrices.joined,
        "made": {"q": matrices.q, "k": matrices.k, "v": matrices.v} if matrices.made else {},
    }
    return Report(command, matrices.about, matrices.prompt, tuple(found), matrices.notes, options)


def _reducers(matrices: Matrices, view: View, pool: str) -> Sequence[Reducer]:
    output = KeepOutput(joined=matrices.joined, projection=matrices.projection, value_up=matrices.value_up)
    if view.only_output:
        return [output]
    if view.room is None:
        return [FullMatrix(weights=True, scores=True), output]
    return [*(PooledMatrix(*view.room, scores=scores, pooling=pool) for scores in (True, False)), output]
