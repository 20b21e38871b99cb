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

_ADD_X = "add --x FILE, or a text"


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
        for is_wrong, message, hint in conflicts(self):
            if is_wrong:
                raise InputError(message, hint)

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


def conflicts(o: MatrixOptions) -> list[tuple[bool, str, str]]:
    """What can't be meant together: whether it was given, the message, and what to do; the first is told."""
    files = (o.q, o.k, o.v, o.x, o.context, *o.projections.values(), o.scores, o.sink, o.weights, *o.masks)
    changes = [f"--{name}" for name in ("scale", "softcap", "sink") if getattr(o, name) is not None]
    changes += ["--positions alibi"] * (o.alibi is not None)
    given, embeds = bool(o.q or o.k or o.v), o.has_embeddings
    x_or_q = "give either x with projections, or q, k and v"
    return [
        (
            files.count("-") > 1,
            "standard input holds one matrix, - was given more than once",
            "put the others in files",
        ),
        (
            o.text is not None and bool(o.q or o.k or (o.v and o.is_latent)),
            "a text and --q or --k at once",
            f"{x_or_q}; quote labels: --labels 'The cat'",
        ),
        (o.x is not None and given, "--x and --q, --k or --v at once", x_or_q),
        (
            o.scores is not None and (embeds or bool(o.q or o.k)),
            "--scores are q kᵀ already, and q and k are given, too",
            "leave out one of them",
        ),
        (o.x is not None and o.text is not None, "a text and --x at once", "give one of them"),
        (not embeds and (o.seed is not None or o.projects("wq", "wk", "wv")), "a projection needs embeddings", _ADD_X),
        (not embeds and o.context is not None, "--context needs embeddings", _ADD_X),
        (not embeds and o.is_latent, "a latent needs embeddings", _ADD_X),
        (not embeds and o.positions == "sinusoidal", "--positions sinusoidal needs embeddings", _ADD_X),
        (
            not embeds and o.q is None and o.scores is None,
            "no matrix",
            'give --q "1 0; 0 1" or --q FILE (then k and v are q), or --scores, or --x, or a text',
        ),
        (
            o.seed is None and o.latent is not None,
            "--latent is a size of projections that are drawn",
            "add --projections SEED",
        ),
        (
            not math.isfinite(o.rope_base),
            f"the base {o.rope_base:g} of rotary positions is not a finite number",
            "most models have 10000",
        ),
        (o.absorb and not o.is_latent, "absorbed is for latent keys", "--latent 2:absorbed, or wdkv=FILE"),
        (
            o.is_latent and (o.projects("wk", "wv") or bool(o.kv_heads)),
            "latent keys and wk, wv or --kv-heads at once",
            "latents make every head's keys and values",
        ),
        (o.has_fixed_weights and bool(changes), "fixed weights ignore scores", f"leave out {' and '.join(changes)}"),
        (
            o.sink is not None and o.weights == "scores",
            "--sink takes a share of the softmax, and --weights scores has none",
            "leave out one of them",
        ),
        (
            o.positions not in (None, *POSITIONS),
            f"--positions {o.positions!r} is unknown",
            f"one of {', '.join(POSITIONS)}, alibi",
        ),
    ]
