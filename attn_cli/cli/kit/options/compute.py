"""The options that say what attention is computed from, and by which rule."""

from dataclasses import asdict, dataclass
from functools import partial

from attn_cli.cli.kit.run.texts import whole_texts
from attn_cli.cli.kit.shell import completion
from attn_cli.cli.kit.shell.signature import argument, option
from attn_cli.sources import DEFAULT_MODEL
from attn_cli.sources.matrices.mask_syntax import MASK_HELP
from attn_cli.sources.matrices.options import MatrixOptions, position_options, projection_options

_FILE = "npy, npz, csv, json, safetensors, file.npz:name, or - for stdin."


# The groups of --help, after the common options.
_latent, _rule = (partial(option, rich_help_panel=group) for group in ("Latent keys", "Rule"))


@dataclass(frozen=True)
class ProblemOptions:
    """Options for the operands of attention and its rule: matrices or words, projections, heads, positions, masks."""

    text: str | None = argument(None, "TEXT", "Attend between these words, in place of --x; - reads stdin.")
    model: str = option(
        DEFAULT_MODEL,
        "--model -m TABLE",
        "Take the words' vectors from this table: toy or toy:NAME.",
        autocompletion=completion.tables,
    )
    q: str | None = option(None, "--q FILE", f"Read queries [n, d], with batch and head axes or without. {_FILE}")
    k: str | None = option(None, "--k FILE", "Read keys [m, d]; default: q.")
    v: str | None = option(None, "--v FILE", "Read values [m, e]; default: k.")
    x: str | None = option(None, "--x FILE", "Read embeddings [n, width] and project them.")
    context: str | None = option(
        None,
        "--context FILE|TEXT",
        "Read embeddings [m, width] of keys and values, or beside TEXT their words: cross-attention.",
    )
    projections: list[str] | None = option(
        None,
        "--projections SEED|NAME=FILE|FILE",
        "Draw W_Q, W_K, W_V, W_O from a seed, or read them: wq=FILE, or an .npz that holds wq, wk, wv, wo, "
        "of latent keys wdkv, wuk, wuv (wkr, norm); may be repeated.",
    )
    heads: int | None = option(None, "--heads N", "Split the last axis into N heads.", min=1)
    kv_heads: int | None = option(None, "--kv-heads G", "Share G key/value heads among groups of query heads.", min=1)
    labels: str | None = option(None, "--labels WORD,WORD,...", "Label keys (and queries, if n = m) with these words.")
    latent: int | None = _latent(None, "--latent R", "Draw latent keys (MLA) of rank R.", min=1)
    absorb: bool = _latent(False, "--absorb", "Absorb the up-projections into queries and outputs.")
    positions: str | None = _rule(
        None,
        "--positions HOW",
        "Add positions: sinusoidal (to x), rotary or rotary-interleaved (to q and k; rotary:500000 sets the "
        "base), alibi (to scores; alibi:0.5,0.25 gives a slope per head).",
    )
    mask: list[str] | None = option(None, "--mask MASK", MASK_HELP, autocompletion=completion.masks)
    causal: bool = _rule(False, "--causal", "Short for --mask causal.")
    scale: str | None = _rule(None, "--scale NUMBER", "Multiply q kᵀ by this, or off; default: 1 / sqrt(d).")
    softcap: float | None = _rule(None, "--softcap C", "Cap scores: C tanh(score / C).")
    bias: str | None = _rule(None, "--bias FILE", "Add these numbers [n, m] to the scores.")
    sink: str | None = _rule(None, "--sink SCORES", "Add a learned sink score per head to every row's softmax.")
    weights: str | None = _rule(
        None, "--weights HOW|FILE", "Skip the softmax: scores, uniform, or weights from a file."
    )

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
