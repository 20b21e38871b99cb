"""The options of attention on matrices: its inputs and its rule, and the combinations that are refused."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attn_cli.errors import InputError
from attn_cli.sources.files.array_file import array_names
from attn_cli.text import excerpt, listed

PROJECTIONS = ("wq", "wk", "wv", "wo")
POSITIONS = ("sinusoidal", "rotary", "rotary-interleaved")
LATENTS = ("wdkv", "wuk", "wuv", "wkr")
_NAMED = (*PROJECTIONS, *LATENTS, "norm")


@dataclass(frozen=True)
class MatrixOptions:
    """The options of attention on the user's matrices; None means "not given".

    A file is given as `read_array` takes it: a path, path.npz:member, "-", or the numbers themselves.
    """

    labels: str | None = None  # words for the keys, for the queries too if there are as many
    q: str | None = None  # files
    k: str | None = None
    v: str | None = None
    x: str | None = None  # embeddings to be projected
    context: str | None = None  # those of keys and values, else x
    text: str | None = None  # words instead of x and context, looked up in the table `model`
    context_text: str | None = None
    model: str = "toy"
    projections: Mapping[str, str] = field(default_factory=dict)  # files by name: wq ..., of latents wdkv, norm ...
    seed: int | None = None  # draws the projections that are not given; without it they are the identity
    heads: int | None = None
    kv_heads: int | None = None
    latent: int | None = None  # the rank of drawn latents
    absorb: bool = False  # the up-projections of latents into queries and outputs
    positions: str | None = None  # "sinusoidal" (added to x), "rotary", "rotary-interleaved" (turn q and k)
    rope_base: float = 10000.0
    masks: tuple[str, ...] = ()  # names such as "causal" or "window:3", and files, all at once
    scale: str | None = None  # a number, "off" (1), None for 1 / sqrt(d)
    softcap: float | None = None
    scores: str | None = None  # q kᵀ itself, in place of q and k
    alibi: str | None = None  # slopes, or "paper"
    sink: str | None = None  # a learned score per head in the softmax's sum
    weights: str | None = None  # without a softmax: "scores", "uniform", "sum" (1 each), or a file of weights
    causal: bool = False  # adds a causal mask even if `masks` names none
    precise: bool = False  # float64 whatever the precision of the files

    @property
    def has_embeddings(self) -> bool:
        """True if q, k and v are to be made from embeddings, or from words."""
        return self.x is not None or self.text is not None

    def check(self) -> None:
        """Raise InputError for options that exclude each other."""
        files = (self.q, self.k, self.v, self.x, self.context, self.scores, self.sink, self.weights)
        if (*files, *self.projections.values(), *self.masks).count("-") > 1:
            raise InputError("standard input holds one matrix, - was given more than once", "put the others in files")
        embeds, x_or_q = self.has_embeddings, "give either x with projections, or q, k and v"
        if self.text is not None and (self.q or self.k or (self.v and self.is_latent)):
            raise InputError("a text and --q or --k at once", f"{x_or_q} · quote labels: --labels 'The cat'")
        if self.x is not None and (self.q or self.k or self.v):
            raise InputError("--x and --q, --k or --v at once", x_or_q)
        if self.scores is not None and (embeds or self.q or self.k):
            raise InputError("--scores are q kᵀ already, and q and k are given, too", "leave out one of them")
        if self.x is not None and self.text is not None:
            raise InputError("a text and --x at once", "give one of them")
        embedded = {
            "a projection": self.seed is not None or self.projects("wq", "wk", "wv"),
            "--context": self.context is not None,
            "a latent": self.is_latent,
            "--positions sinusoidal": self.positions == "sinusoidal",
        }
        if not embeds and any(embedded.values()):
            subject = next(subject for subject, is_given in embedded.items() if is_given)
            raise InputError(f"{subject} needs embeddings", "add --x FILE, or a text")
        if not embeds and self.q is None and self.scores is None:
            hint = 'give --q "1 0; 0 1" or --q FILE (then k and v are q), or --scores, or --x, or a text'
            raise InputError("no matrix", hint)
        if self.seed is None and self.latent is not None:
            raise InputError("--latent is a size of projections that are drawn", "add --projections SEED")
        if not math.isfinite(self.rope_base):
            line = f"the base {self.rope_base:g} of rotary positions is not a finite number"
            raise InputError(line, "most models have 10000")
        if self.absorb and not self.is_latent:
            raise InputError("absorbed is for latent keys", "--latent 2:absorbed, or wdkv=FILE")
        if self.is_latent and (self.projects("wk", "wv") or self.kv_heads):
            raise InputError(
                "latent keys and wk, wv or --kv-heads at once", "latents make every head's keys and values"
            )
        changes = [f"--{name}" for name in ("scale", "softcap", "sink") if getattr(self, name) is not None]
        changes += ["--positions alibi"] * (self.alibi is not None)
        if self.has_fixed_weights and changes:
            raise InputError("fixed weights ignore scores", f"leave out {' and '.join(changes)}")
        if self.sink is not None and self.weights == "scores":
            line = "--sink takes a share of the softmax, and --weights scores has none"
            raise InputError(line, "leave out one of them")
        if self.positions not in (None, *POSITIONS):
            raise InputError(f"--positions {self.positions!r} is unknown", f"one of {', '.join(POSITIONS)}, alibi")

    @property
    def is_latent(self) -> bool:
        """True if keys and values come from latents."""
        return self.latent is not None or self.projects(*LATENTS)

    @property
    def has_fixed_weights(self) -> bool:
        """True if weights are given that don't depend on scores."""
        return self.weights not in (None, "scores")

    @property
    def rotary(self) -> bool:
        """True if q and k are rotated by rotary positions."""
        return (self.positions or "").startswith("rotary")

    def projects(self, *names: str) -> bool:
        """True if any projection of these names was given."""
        return any(name in self.projections for name in names)


def projection_options(given: Sequence[str]) -> dict[str, Any]:
    """The options that --projections stands for: a seed to draw them from, files by name, or the arrays of a file."""
    seeds = [int(value) for value in given if value.isdecimal()]
    files: dict[str, str] = {}
    for value in given:
        name, equals, file = value.partition("=")
        if equals and name in _NAMED:
            files[name] = file
        elif not value.isdecimal():
            held = [name for name in array_names(value) if name in _NAMED]
            if not held:
                raise InputError(f"{excerpt(value)} holds no projection by name", f"one of {', '.join(_NAMED)}")
            files |= {name: f"{value}:{name}" for name in held}
    missing = [name for name in LATENTS[:3] if name not in files]
    if 0 < len(missing) < 3:
        needed = "wdkv [width, r], wuk [r, heads * d], wuv [r, heads * e]"
        raise InputError(f"latent keys need {listed(missing)}, which is not given", needed)
    return {"projections": files} | ({"seed": seeds[-1]} if seeds else {})


def position_options(positions: str | None) -> dict[str, Any]:
    """The options that --positions stands for: a name, behind a colon the base of rotary positions or slopes."""
    name, _, value = (positions or "").partition(":")
    if name == "alibi":
        return {"positions": None, "alibi": value or "paper"}
    if not value or not name.startswith("rotary"):
        return {"positions": positions}
    try:
        return {"positions": name, "rope_base": float(value)}
    except ValueError:
        raise InputError(f"--positions {excerpt(positions or '')}: the base is no number", "rotary:500000") from None


def latent_options(given: str | None) -> dict[str, Any]:
    """The options that --latent stands for: a rank, absorbed up-projections, or both."""
    rank, _, form = (given or "").rpartition(":") if given != "absorbed" else ("", "", given)
    rank, form = (form, "") if form != "absorbed" else (rank, form)
    if rank and not (rank.isdecimal() and int(rank)):
        raise InputError(f"--latent {excerpt(given or '')} is no rank", "a whole number: --latent 2, or 2:absorbed")
    return {"latent": int(rank) if rank else None, "absorb": bool(form)}
