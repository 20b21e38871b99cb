"""The options that say what attention is computed from, and by which rule."""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated

import typer

from attn_cli.cli.kit import completion
from attn_cli.cli.kit.read_texts import whole_texts
from attn_cli.sources import DEFAULT_MODEL
from attn_cli.sources.matrices.mask_syntax import MASK_HELP
from attn_cli.sources.matrices.options import MatrixOptions

_FILE = "npy, npz, csv, json, safetensors, file.npz:name, or - for stdin."


# The groups of --help, after the common options.
_projection, _latent, _rule = (
    partial(typer.Option, rich_help_panel=group) for group in ("Projections", "Latent keys", "Rule")
)


@dataclass(frozen=True)
class ProblemOptions:
    """What attention is computed from, and by which rule: matrices or words, projections, heads, positions, masks."""

    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", show_default=False, help="Words instead of x; - reads stdin.")
    ] = None
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="The table of the words: toy or toy:NAME.",
            metavar="TABLE",
            autocompletion=completion.tables,
        ),
    ] = DEFAULT_MODEL
    context_text: Annotated[
        str | None, typer.Option("--context-text", help="Words for keys and values: cross-attention.", metavar="TEXT")
    ] = None
    q: Annotated[
        str | None,
        typer.Option("--q", help=f"Queries [n, d]; leading batch and head axes are fine. {_FILE}", metavar="FILE"),
    ] = None
    k: Annotated[str | None, typer.Option("--k", help="Keys [m, d]; q if missing.", metavar="FILE")] = None
    v: Annotated[str | None, typer.Option("--v", help="Values [m, e]; k if missing.", metavar="FILE")] = None
    x: Annotated[str | None, typer.Option("--x", help="Embeddings [n, width], to be projected.", metavar="FILE")] = None
    context: Annotated[
        str | None,
        typer.Option("--context", help="Embeddings [m, width] for keys and values: cross-attention.", metavar="FILE"),
    ] = None
    wq: Annotated[
        str | None, _projection("--wq", help="W_Q [width, heads * d]; identity if missing.", metavar="FILE")
    ] = None
    wk: Annotated[str | None, _projection("--wk", help="W_K [width, kv-heads * d].", metavar="FILE")] = None
    wv: Annotated[str | None, _projection("--wv", help="W_V [width, kv-heads * e].", metavar="FILE")] = None
    wo: Annotated[
        str | None, _projection("--wo", help="W_O [heads * e, width], for the joined heads.", metavar="FILE")
    ] = None
    random_projections: Annotated[
        int | None,
        _projection("--random-projections", help="Draw the W that are not given.", min=0, metavar="SEED"),
    ] = None
    heads: Annotated[
        int | None, typer.Option("--heads", help="Cut the last axis into N heads.", min=1, metavar="N")
    ] = None
    kv_heads: Annotated[
        int | None, _projection("--kv-heads", help="Key heads, each shared by a group.", min=1, metavar="G")
    ] = None
    labels: Annotated[
        str | None, typer.Option("--labels", help="Words for the keys (and n = m queries).", metavar="WORD,WORD,...")
    ] = None
    head_dim: Annotated[
        int | None, _projection("--head-dim", help="Size of a head of drawn projections.", min=1, metavar="D")
    ] = None
    latent: Annotated[int | None, _latent("--latent", help="Latent keys of rank R, drawn.", min=1, metavar="R")] = None
    wdkv: Annotated[str | None, _latent("--wdkv", help="Latent keys: down-projection [width, r].", metavar="FILE")] = (
        None
    )
    wuk: Annotated[str | None, _latent("--wuk", help="... up-projection of keys [r, heads * d].", metavar="FILE")] = (
        None
    )
    wuv: Annotated[str | None, _latent("--wuv", help="... up-projection of values [r, heads * e].", metavar="FILE")] = (
        None
    )
    wkr: Annotated[
        str | None, _latent("--wkr", help="... key part that all heads share [width, p].", metavar="FILE")
    ] = None
    latent_norm: Annotated[
        str | None, _latent("--latent-norm", help="... weights [1, r] of the RMS norm of latents.", metavar="FILE")
    ] = None
    absorb: Annotated[bool, _latent("--absorb", help="Latent keys with the up-projections absorbed.")] = False
    positions: Annotated[
        str | None,
        _rule("--positions", help="sinusoidal (on x), rotary or rotary-interleaved (on q, k).", metavar="HOW"),
    ] = None
    rope_base: Annotated[float, _rule("--rope-base", help="Base of rotary positions.", min=1.0, metavar="NUMBER")] = (
        10000.0
    )
    mask: Annotated[
        list[str] | None,
        typer.Option("--mask", help=MASK_HELP, metavar="MASK", autocompletion=completion.masks),
    ] = None
    scale: Annotated[
        str | None, _rule("--scale", help="Factor on q kᵀ, or off; 1 / sqrt(d) if missing.", metavar="NUMBER")
    ] = None
    softcap: Annotated[float | None, _rule("--softcap", help="Scores become C tanh(score / C).", metavar="C")] = None
    bias: Annotated[str | None, _rule("--bias", help="Numbers [n, m] to add to the scores.", metavar="FILE")] = None
    alibi: Annotated[
        str | None,
        _rule("--alibi", help="Minus slope times distance: paper, or a slope per head.", metavar="SLOPES"),
    ] = None
    sink: Annotated[
        str | None,
        _rule("--sink", help="A learned score per head that takes its share of every row.", metavar="SCORES"),
    ] = None
    fixed: Annotated[
        str | None,
        _rule("--fixed", help="Weights that look at no scores: uniform, or a file.", metavar="WEIGHTS"),
    ] = None
    no_softmax: Annotated[bool, _rule("--no-softmax", help="Scores are the weights, not normalised.")] = False
    allow_nonfinite: Annotated[bool, _rule("--allow-nonfinite", help="Take NaN and Inf as they are.")] = False

    def options(self, *, causal: bool = False, precise: bool = False) -> MatrixOptions:
        """The options as `open_matrices` takes them.

        causal   add a causal mask even if --mask names none
        precise  compute in float64, whatever the precision of the files
        """
        values = asdict(self)
        names = [name for name in ("text", "context_text") if values[name] is not None]
        values |= dict(zip(names, whole_texts([values[name] for name in names]), strict=True))
        return MatrixOptions(
            seed=values.pop("random_projections"),
            masks=tuple(values.pop("mask") or ()),
            softmax=not values.pop("no_softmax"),
            causal=causal,
            precise=precise,
            **values,
        )
