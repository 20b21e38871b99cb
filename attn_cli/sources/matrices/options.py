"""What attention is to be computed from, and by which rule, as a user says it."""

import math
from dataclasses import dataclass

from attn_cli.errors import InputError

PROJECTIONS = ("wq", "wk", "wv", "wo")
LATENTS = ("wdkv", "wuk", "wuv", "wkr")


@dataclass(frozen=True)
class MatrixOptions:
    """Everything that `open_matrices` reads. A file is what `read_array` takes; None is "not given".

    q, k, v                files: queries, keys (q if missing), values (k if missing)
    x, context             files: embeddings to be projected; what keys and values are made of, if not of x
    text, context_text     words instead of x and context, looked up in the table `model`
    labels                 words for the keys, with commas; for the queries too if there are as many
    wq, wk, wv, wo         files: projections; the identity if missing
    wdkv, wuk, wuv, wkr    files: latent keys and values; see `kernel.latent`
    latent_norm            a file: the weights of the RMS norm of latents, none if missing
    seed                   draws the projections that are not given
    heads, kv_heads        cut the last axis into heads; a number of key heads that divides heads
    head_dim, latent       sizes for drawn projections: of a head, of a latent
    absorb                 compute latent attention with the up-projections absorbed
    positions, rope_base   "sinusoidal" (added to x), "rotary", "rotary-interleaved" (turn q and k), None
    masks                  names and files, all at once; see `mask_syntax.MASKS`
    scale                  a number, "off", None for 1 / sqrt(d)
    softcap, bias, alibi   what happens to scores: a cap, a file to add, slopes by which distance costs (or "paper")
    sink                   a file, or one number per head, with commas
    fixed                  "uniform" or a file: weights that look at no scores
    softmax                False: the scores are the weights
    precise                compute in float64 whatever the precision of the files
    causal                 whether a causal mask is meant even where none was named
    """

    labels: str | None = None
    q: str | None = None
    k: str | None = None
    v: str | None = None
    x: str | None = None
    context: str | None = None
    text: str | None = None
    context_text: str | None = None
    model: str = "toy"
    wq: str | None = None
    wk: str | None = None
    wv: str | None = None
    wo: str | None = None
    wdkv: str | None = None
    wuk: str | None = None
    wuv: str | None = None
    wkr: str | None = None
    latent_norm: str | None = None
    seed: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    latent: int | None = None
    absorb: bool = False
    positions: str | None = None
    rope_base: float = 10000.0
    masks: tuple[str, ...] = ()
    scale: str | None = None
    softcap: float | None = None
    bias: str | None = None
    alibi: str | None = None
    sink: str | None = None
    fixed: str | None = None
    softmax: bool = True
    causal: bool = False
    allow_nonfinite: bool = False
    precise: bool = False

    @property
    def made(self) -> bool:
        """Whether q, k and v are made here: of embeddings, or of words."""
        return self.x is not None or self.text is not None

    def check(self) -> None:
        """Refuse what can't be meant together."""
        files = (getattr(self, name) for name in ("q", "k", "v", "x", "context", *PROJECTIONS, *LATENTS, "latent_norm",
                                                  "bias", "sink", "fixed"))  # fmt: skip
        if sum(spec == "-" for spec in (*files, *self.masks)) > 1:
            raise InputError("standard input holds one matrix, - was given more than once", "put the others in files")
        if self.made and (self.q or self.k or self.v):
            source = "--x" if self.text is None else "a text"
            raise InputError(f"{source} and --q, --k or --v at once", "give either x with projections, or q, k and v")
        if self.x is not None and self.text is not None:
            raise InputError("a text and --x at once", "give one of them")
        if self.context is not None and self.context_text is not None:
            raise InputError("--context and --context-text at once", "give one of them")
        if self.context_text is not None and self.text is None:
            raise InputError("--context-text needs a text", 'attn compute "river bank" --context-text "bank loan"')
        if not self.made:
            self._check_given()
        if self.seed is None and (self.latent is not None or self.head_dim is not None):
            option = "--latent" if self.latent is not None else "--head-dim"
            raise InputError(f"{option} is a size of projections that are drawn", "add --random-projections SEED")
        if not math.isfinite(self.rope_base):
            raise InputError(f"--rope-base {self.rope_base:g} is not a finite number", "most models have 10000")
        if self.absorb and not self.is_latent:
            raise InputError("--absorb is for latent keys", "add --wdkv, --wuk and --wuv, or --latent R")
        if self.is_latent and (self.wk or self.wv or self.kv_heads):
            raise InputError(
                "latent keys and --wk, --wv or --kv-heads at once", "latents make every head's keys and values"
            )
        scored = (self.scale, self.softcap, self.bias, self.alibi, self.sink)
        if self.fixed is not None and (any(x is not None for x in scored) or not self.softmax):
            raise InputError(
                "--fixed looks at no scores", "leave out --scale, --softcap, --bias, --alibi, --sink and --no-softmax"
            )
        if self.sink is not None and not self.softmax:
            raise InputError("--sink takes a share of the softmax, and --no-softmax has none", "leave out one of them")

    @property
    def is_latent(self) -> bool:
        """Whether keys and values come from latents."""
        return self.latent is not None or any(getattr(self, name) is not None for name in LATENTS)

    def _check_given(self) -> None:
        if any(getattr(self, name) is not None for name in ("wq", "wk", "wv")):
            raise InputError("--wq, --wk and --wv project --x, which is missing", "add --x FILE")
        for option, value in (
            ("--context", self.context), ("--random-projections", self.seed),
            ("latent keys", self.is_latent or None), ("--positions sinusoidal", self.positions == "sinusoidal" or None),
        ):  # fmt: skip
            if value is not None:
                raise InputError(f"{option} needs embeddings", "add --x FILE, or a text")
        if self.q is None:
            raise InputError("no matrix", "give --q FILE (then k and v are q), or --x FILE, or a text")
