"""The options of attention on matrices: its inputs and its rule, and the combinations that are refused."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from attn_cli.errors import InputError
from attn_cli.sources.files.array_file import array_names
from attn_cli.text import excerpt, listed

PROJECTIONS = ("wq", "wk", "wv", "wo")
POSITIONS = ("sinusoidal", "rotary", "rotary-interleaved")
LATENTS = ("wdkv", "wuk", "wuv", "wkr")
_NAMED = {name: name for name in (*PROJECTIONS, *LATENTS)} | {"norm": "latent_norm"}

_ADD_X = "add --x FILE, or a text"
_ADD_SEED = "add --projections SEED"


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
    wq: str | None = None  # projections; the identity if missing
    wk: str | None = None
    wv: str | None = None
    wo: str | None = None
    wdkv: str | None = None  # to latents, from these to keys and values, and to the shared key part
    wuk: str | None = None
    wuv: str | None = None
    wkr: str | None = None
    latent_norm: str | None = None  # the weights of the RMS norm of latents
    seed: int | None = None  # draws the projections that are not given
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
    fixed: str | None = None  # "uniform", "sum" (1 each) or a file: weights that don't depend on scores
    softmax: bool = True  # False: the scores are the weights
    causal: bool = False  # adds a causal mask even if `masks` names none
    precise: bool = False  # float64 whatever the precision of the files

    @property
    def has_embeddings(self) -> bool:
        """True if q, k and v are to be made from embeddings, or from words."""
        return self.x is not None or self.text is not None

    def check(self) -> None:
        """Raise InputError for options that exclude each other, the first such pair of `REFUSALS`."""
        for refusal in REFUSALS:
            if refusal.applies(self):
                values = vars(self) | {"changes": " and ".join(self._changes())}
                raise InputError(refusal.message.format_map(values), refusal.hint.format_map(values))

    @property
    def is_latent(self) -> bool:
        """True if keys and values come from latents."""
        return self.latent is not None or self.sets(*LATENTS)

    @property
    def rotary(self) -> bool:
        """True if q and k are rotated by rotary positions."""
        return (self.positions or "").startswith("rotary")

    def _changes(self) -> list[str]:
        names = [f"--{name}" for name in ("scale", "softcap", "sink") if self.sets(name)]
        names += ["--positions alibi"] if self.sets("alibi") else []
        return [*names, *([] if self.softmax else ["--weights scores"])]

    def sets(self, *names: str) -> bool:
        """True if any of the options of these names (`names`) was given."""
        return any(getattr(self, name) is not None for name in names)


def projection_options(given: Sequence[str]) -> dict[str, Any]:
    """The options that --projections stands for: a seed to draw them from, files by name, or the arrays of a file."""
    options: dict[str, Any] = {}
    for value in given:
        name, equals, file = value.partition("=")
        if value.isdecimal():
            options["seed"] = int(value)
        elif equals and name in _NAMED:
            options[_NAMED[name]] = file
        else:
            held = [name for name in array_names(value) if name in _NAMED]
            if not held:
                raise InputError(f"{excerpt(value)} holds no projection by name", f"one of {', '.join(_NAMED)}")
            options |= {_NAMED[name]: f"{value}:{name}" for name in held}
    missing = [name for name in LATENTS[:3] if name not in options]
    if missing and not options.get("wdkv") is options.get("wuk") is options.get("wuv") is None:
        needed = "wdkv [width, r], wuk [r, heads * d], wuv [r, heads * e]"
        raise InputError(f"latent keys need {listed(missing)}, which is not given", needed)
    return options


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


class Refusal(NamedTuple):
    """Options that exclude each other (`applies` says where), and the error that says so.

    `{name}` in it stands for that option's value, `{changes}` for the names of those given that change scores.
    """

    applies: Callable[[MatrixOptions], bool]
    message: str
    hint: str


def _stdin_count(options: MatrixOptions) -> int:
    files = ("q", "k", "v", "x", "context", *PROJECTIONS, *LATENTS, "latent_norm", "scores", "sink", "fixed")
    return sum(file == "-" for file in (*(getattr(options, name) for name in files), *options.masks))


REFUSALS = (
    Refusal(
        lambda o: _stdin_count(o) > 1,
        "standard input holds one matrix, - was given more than once",
        "put the others in files",
    ),
    Refusal(
        lambda o: o.text is not None and bool(o.q or o.k or (o.v and o.is_latent)),
        "a text and --q or --k at once",
        "give either x with projections, or q, k and v; quote labels: --labels 'The cat'",
    ),
    Refusal(
        lambda o: o.x is not None and bool(o.q or o.k or o.v),
        "--x and --q, --k or --v at once",
        "give either x with projections, or q, k and v",
    ),
    Refusal(
        lambda o: o.scores is not None and (o.has_embeddings or bool(o.q or o.k)),
        "--scores are q kᵀ already, and q and k are given, too",
        "leave out one of them",
    ),
    Refusal(lambda o: o.x is not None and o.text is not None, "a text and --x at once", "give one of them"),
    Refusal(
        lambda o: not o.has_embeddings and o.sets("wq", "wk", "wv"),
        "W_Q, W_K and W_V project --x, which is missing",
        "add --x FILE",
    ),
    Refusal(lambda o: not o.has_embeddings and o.sets("context"), "--context needs embeddings", _ADD_X),
    Refusal(lambda o: not o.has_embeddings and o.sets("seed"), "drawn projections need embeddings", _ADD_X),
    Refusal(lambda o: not o.has_embeddings and o.is_latent, "latent keys need embeddings", _ADD_X),
    Refusal(
        lambda o: not o.has_embeddings and o.positions == "sinusoidal",
        "--positions sinusoidal needs embeddings",
        _ADD_X,
    ),
    Refusal(
        lambda o: not o.has_embeddings and o.q is None and o.scores is None,
        "no matrix",
        'give --q "1 0; 0 1" or --q FILE (then k and v are q), or --scores, or --x, or a text',
    ),
    Refusal(
        lambda o: o.seed is None and o.sets("latent"), "--latent is a size of projections that are drawn", _ADD_SEED
    ),
    Refusal(
        lambda o: not math.isfinite(o.rope_base),
        "the base {rope_base:g} of rotary positions is not a finite number",
        "most models have 10000",
    ),
    Refusal(lambda o: o.absorb and not o.is_latent, "absorbed is for latent keys", "--latent 2:absorbed, or wdkv=FILE"),
    Refusal(
        lambda o: o.is_latent and bool(o.wk or o.wv or o.kv_heads),
        "latent keys and wk, wv or --kv-heads at once",
        "latents make every head's keys and values",
    ),
    Refusal(
        lambda o: o.fixed is not None and (o.sets("scale", "softcap", "alibi", "sink") or not o.softmax),
        "fixed weights ignore scores",
        "leave out {changes}",
    ),
    Refusal(
        lambda o: o.sink is not None and not o.softmax,
        "--sink takes a share of the softmax, and --weights scores has none",
        "leave out one of them",
    ),
    Refusal(
        lambda o: o.positions not in (None, *POSITIONS),
        "--positions {positions!r} is unknown",
        f"one of {', '.join(POSITIONS)}, alibi",
    ),
)
