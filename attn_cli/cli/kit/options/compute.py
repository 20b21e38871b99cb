"""The options that say what attention is computed from, and by which rule."""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated

import typer

from attn_cli.cli.kit.run.texts import whole_texts
from attn_cli.cli.kit.shell import completion
from attn_cli.sources import DEFAULT_MODEL
from attn_cli.sources.matrices.mask_syntax import MASK_HELP
from attn_cli.sources.matrices.options import MatrixOptions, position_options, projection_options

_FILE = "npy, npz, csv, json, safetensors, file.npz:name, or - for stdin."


# The groups of --help, after the common options.
_latent, _rule = (partial(typer.Option, rich_help_panel=group) for group in ("Latent keys", "Rule"))


@dataclass(frozen=True)
class ProblemOptions:
    """Options for the operands of attention and its rule: matrices or words, projections, heads, positions, masks."""

    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT", show_default=False, help="Attend between these words, in place of --x; - reads stdin."
        ),
    ] = None
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="Take the words' vectors from this table: toy or toy:NAME.",
            metavar="TABLE",
            autocompletion=completion.tables,
        ),
    ] = DEFAULT_MODEL
    q: Annotated[
        str | None,
        typer.Option("--q", help=f"Read queries [n, d], with batch and head axes or without. {_FILE}", metavar="FILE"),
    ] = None
    k: Annotated[str | None, typer.Option("--k", help="Read keys [m, d]; default: q.", metavar="FILE")] = None
    v: Annotated[str | None, typer.Option("--v", help="Read values [m, e]; default: k.", metavar="FILE")] = None
    x: Annotated[
        str | None, typer.Option("--x", help="Read embeddings [n, width] and project them.", metavar="FILE")
    ] = None
    context: Annotated[
        str | None,
        typer.Option(
            "--context",
            help="Read embeddings [m, width] of keys and values, or beside TEXT their words: cross-attention.",
            metavar="FILE|TEXT",
        ),
    ] = None
    projections: Annotated[
        list[str] | None,
        typer.Option(
            "--projections",
            help="Draw W_Q, W_K, W_V, W_O from a seed, or read them: wq=FILE, or an .npz that holds wq, wk, wv, wo, "
            "of latent keys wdkv, wuk, wuv (wkr, norm); may be repeated.",
            metavar="SEED|NAME=FILE|FILE",
        ),
    ] = None
    heads: Annotated[
        int | None, typer.Option("--heads", help="Split the last axis into N heads.", min=1, metavar="N")
    ] = None
    kv_heads: Annotated[
        int | None,
        typer.Option("--kv-heads", help="Share G key/value heads among groups of query heads.", min=1, metavar="G"),
    ] = None
    labels: Annotated[
        str | None,
        typer.Option("--labels", help="Label keys (and queries, if n = m) with these words.", metavar="WORD,WORD,..."),
    ] = None
    latent: Annotated[int | None, _latent("--latent", help="Draw latent keys (MLA) of rank R.", min=1, metavar="R")] = (
        None
    )
    absorb: Annotated[bool, _latent("--absorb", help="Absorb the up-projections into queries and outputs.")] = False
    positions: Annotated[
        str | None,
        _rule(
            "--positions",
            help="Add positions: sinusoidal (to x), rotary or rotary-interleaved (to q and k; rotary:500000 sets the "
            "base), alibi (to scores; alibi:0.5,0.25 gives a slope per head).",
            metavar="HOW",
        ),
    ] = None
    mask: Annotated[
        list[str] | None,
        typer.Option("--mask", help=MASK_HELP, metavar="MASK", autocompletion=completion.masks),
    ] = None
    causal: Annotated[bool, _rule("--causal", help="Short for --mask causal.")] = False
    scale: Annotated[
        str | None, _rule("--scale", help="Multiply q kᵀ by this, or off; default: 1 / sqrt(d).", metavar="NUMBER")
    ] = None
    softcap: Annotated[float | None, _rule("--softcap", help="Cap scores: C tanh(score / C).", metavar="C")] = None
    bias: Annotated[str | None, _rule("--bias", help="Add these numbers [n, m] to the scores.", metavar="FILE")] = None
    sink: Annotated[
        str | None,
        _rule("--sink", help="Add a learned sink score per head to every row's softmax.", metavar="SCORES"),
    ] = None
    weights: Annotated[
        str | None,
        _rule("--weights", help="Skip the softmax: scores, uniform, or weights from a file.", metavar="HOW|FILE"),
    ] = None

    def options(self, *, decodes: bool = False, precise: bool = False) -> MatrixOptions:
        """The options as one record, from which a source of matrices, or of words as vectors, is opened."""
        values = asdict(self)
        if self.text is not None:
            values |= {"context": None, "context_text": self.context}
            names = [name for name in ("text", "context_text") if values[name] is not None]
            values |= dict(zip(names, whole_texts([values[name] for name in names]), strict=True))
        values |= projection_options(values.pop("projections") or ()) | position_options(self.positions)
        weights = values.pop("weights")
        return MatrixOptions(
            masks=(*(values.pop("mask") or ()), *["causal"] * values.pop("causal")),
            softmax=weights != "scores",
            fixed=None if weights == "scores" else weights,
            causal=decodes,
            precise=precise,
            **values,
        )
