"""attn compute: attention from scratch on the user's own matrices."""

from collections.abc import Sequence
from typing import Annotated

import typer

from attn_cli.call import Call, Prompt, Selection
from attn_cli.cli import options as o
from attn_cli.cli.shared import opened_view
from attn_cli.cli.talk import tell
from attn_cli.errors import ExitCode
from attn_cli.sources.matrices import Matrices, open_matrices
from attn_cli.summaries.matrix import FullMatrix
from attn_cli.summaries.output import KeepOutput
from attn_cli.summaries.pooled import PooledMatrix
from attn_cli.summaries.reduce import Reducer, Summary, reduce
from attn_cli.summaries.report import Report
from attn_cli.views import View
from attn_cli.views.palette import SCALES

_FILE = "npy, npz, csv, json, safetensors, file.npz:name, or - for stdin."


def compute(
    q: Annotated[
        str | None,
        typer.Option("--q", help=f"Queries [n, d]; leading batch and head axes are fine. {_FILE}", metavar="FILE"),
    ] = None,
    k: Annotated[str | None, typer.Option("--k", help="Keys [m, d]; q if missing.", metavar="FILE")] = None,
    v: Annotated[str | None, typer.Option("--v", help="Values [m, e]; k if missing.", metavar="FILE")] = None,
    x: Annotated[
        str | None, typer.Option("--x", help="Embeddings [n, width], to be projected.", metavar="FILE")
    ] = None,
    wq: Annotated[
        str | None, typer.Option("--wq", help="W_Q [width, heads * d]; identity if missing.", metavar="FILE")
    ] = None,
    wk: Annotated[str | None, typer.Option("--wk", help="W_K [width, heads * d].", metavar="FILE")] = None,
    wv: Annotated[str | None, typer.Option("--wv", help="W_V [width, heads * e].", metavar="FILE")] = None,
    wo: Annotated[
        str | None, typer.Option("--wo", help="W_O [heads * e, width], for the joined heads.", metavar="FILE")
    ] = None,
    heads: Annotated[
        int | None, typer.Option("--heads", help="Cut the last axis into N heads.", min=1, metavar="N")
    ] = None,
    mask: Annotated[
        str | None,
        typer.Option(
            "--mask", help="causal, causal-bottom-right, or a file (1 = may attend, or additive).", metavar="MASK"
        ),
    ] = None,
    scale: Annotated[
        float | None, typer.Option("--scale", help="Factor on q kᵀ; 1 / sqrt(d) if missing.", metavar="NUMBER")
    ] = None,
    allow_nonfinite: Annotated[bool, typer.Option("--allow-nonfinite", help="Take NaN and Inf as they are.")] = False,
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
) -> int:
    """Attention from scratch on your own matrices.

    Scaled dot-product attention: prints scores, weights and output; -o out.npz saves them.

    \b
    Examples:
      attn compute --q q.npy                        self-attention: k and v are q
      attn compute --q q.npy --k k.npy --v v.npy --mask causal -o out.npz
      attn compute --x x.csv --wq wq.csv --wk wk.csv --wv wv.csv --heads 2
      attn compute --q all.npz:q --k all.npz:k --v all.npz:v --json | jq .result.output
      cat q.npy | attn compute --q - -o output.npy
    """
    o.one_of(pool, ("max", "mean"), "--pool")
    o.one_of(color_scale, SCALES, "--color-scale")
    selection = o.selection("all", head)
    with opened_view(format, json, output, color, force) as view:
        matrices = open_matrices(
            q=q, k=k, v=v, x=x, wq=wq, wk=wk, wv=wv, wo=wo, heads=heads, mask=mask, scale=scale,
            allow_nonfinite=allow_nonfinite,
        )  # fmt: skip
        for note in matrices.notes:
            tell(note, quiet=quiet)
        view.show(_report(matrices, selection, view, pool, color_scale))
    return ExitCode.DONE


def _report(matrices: Matrices, selection: Selection, view: View, pool: str, color_scale: str) -> Report:
    found: list[Summary] = []

    def visit(call: Call) -> None:
        found.append(reduce(call, *_reducers(matrices, view, pool)))

    matrices.each(selection, visit)
    options = {
        "scale": color_scale,
        "lead": matrices.lead,
        "head_axis": matrices.head_axis,
        "joined": matrices.joined,
        "made": {"q": matrices.q, "k": matrices.k, "v": matrices.v} if matrices.made else {},
    }
    return Report("compute", matrices.about, Prompt("", ()), tuple(found), matrices.notes, options)


def _reducers(matrices: Matrices, view: View, pool: str) -> Sequence[Reducer]:
    output = KeepOutput(joined=matrices.joined, projection=matrices.projection)
    if view.only_output:
        return [output]
    if view.room is None:
        return [FullMatrix(weights=True, scores=True), output]
    return [*(PooledMatrix(*view.room, scores=scores, pooling=pool) for scores in (True, False)), output]
