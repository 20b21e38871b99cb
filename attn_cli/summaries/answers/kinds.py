"""attn heads --kinds: what every head looks at, against uniform attention, on a text or on repeated random tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from attn_cli.call import Call, Place
from attn_cli.fields import COUNT, FLAG, POSITIVE, TEXT, Field, Output, Rows, made, or_none
from attn_cli.fields import STREAM as STREAM_OF_SEVERAL
from attn_cli.model.source import Source
from attn_cli.prompt import Prompt
from attn_cli.recording import Recording
from attn_cli.selection import ALL, Selection
from attn_cli.summaries.reduce import Summary, reduce, with_part
from attn_cli.summaries.reducers.kinds.head_kinds import KINDS
from attn_cli.summaries.reducers.kinds.reducer import HEAD_ROW, HeadKinds, HeadKindsReducer, KindTexts, TextKinds
from attn_cli.summaries.report import Answer, Report
from attn_cli.summaries.text_sinks import SinkKey, text_sinks
from attn_cli.summaries.told.copying import COPYING, Copying

_SINK = (
    Field("stream", TEXT),
    Field("key", COUNT, "the key's token index"),
    Field("key_token", TEXT, value="token.text"),
    Field("heads", {"type": "number", "minimum": 0, "maximum": 1},
          "the share of heads of which it is a sink: more than 0.3 of the rows that see it, and 3 times the baseline"),
    Field("weight", {"type": "number", "minimum": 0}, "what it receives, mean over heads"),
    Field("value_norm", POSITIVE,
          "norm of its value over the median of all, median over heads and layers; null where values are unknown",
          "value"),
    Field("residual_norm", POSITIVE,
          "norm of its vector between blocks over the median of all, largest over blocks; null where unknown",
          "residual"),
    Field("hub", FLAG, "true for a hub: its value and its vector have ordinary norms, so heads read it",
          "is_hub"),
)  # fmt: skip


_PROMPT = (
    Field("seed", or_none(COUNT), "that its random tokens were drawn with; null for a text"),
    Field("tokens", COUNT, "how many it has"),
)
STREAM = Field("stream", TEXT, STREAM_OF_SEVERAL.meaning, optional=True)
MODULE = Field("module", TEXT, "the module's path, where a layer has several", "name", optional=True)
CALL = Field("call", COUNT, "which of its runs, where a layer has several", optional=True)
HEADS = Field(
    "kinds",
    Rows(
        (STREAM, MODULE, CALL, *HEAD_ROW),
        "one head; below weight and share 0.1, or 5 times the baseline, it is of no kind",
    ).schema(),
    value=lambda kinds: list(kinds.records()),
)
SINKS = Field("sinks", Rows(_SINK), "the keys of a text that are sinks of a tenth of all heads; none of random tokens")
FIELDS = (
    Field("prompts", Rows(_PROMPT).schema() | {"minItems": 1}, "what the heads were judged on, in the order of inputs"),
    Field("named_by", {"enum": ["weight", "share"]},
          "the number that heads are named by: share on a text, weight on random tokens"),
    HEADS,
    SINKS,
    COPYING,
)  # fmt: skip
OUTPUT = Output("attn.kinds/2", "The kind of every head by what it attends to.", FIELDS, several_texts=True)


@dataclass(frozen=True, eq=False)
class KindMap(Answer):
    """What every head attends to: its kind (previous token, induction ...), as the result of attn heads --kinds."""

    name: ClassVar[str] = "kind_map"
    fields: ClassVar[Sequence[Field]] = FIELDS

    summaries: tuple[Summary, ...]
    seed: int | None
    lengths: tuple[int, ...]
    copying: Copying | None = None

    @property
    def parts(self) -> list[tuple[Summary, HeadKinds]]:
        """The summary of each call whose heads were judged, with the numbers that say their kinds (induction ...)."""
        return with_part(self.summaries, HeadKinds)

    @property
    def judged_calls(self) -> tuple[Summary, ...]:
        """The summaries of the attention calls whose heads' kinds (induction ...) are told here."""
        return self.summaries

    @property
    def is_of_text(self) -> bool:
        """True if heads were judged on a text, False on prompts of random tokens."""
        return self.seed is None

    @property
    def sinks(self) -> list[SinkKey]:
        """The sinks of the text, those of most heads first; [] for prompts of random tokens."""
        return text_sinks(self.parts) if self.is_of_text else []

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per head: layer, head, kv_head, kind, its weight, share, baseline and control, then all kinds'."""
        streams = {summary.place.stream for summary in self.summaries}
        modules = [(summary.place.stream, summary.place.layer) for summary in self.summaries]
        lead = [STREAM] if len(streams) > 1 else []
        lead += [MODULE, CALL] if len(set(modules)) < len(modules) else []
        for summary, part in self.parts:
            yield from (made(lead, summary.place) | row for row in part.records(summary))

    @property
    def prompts(self) -> list[dict[str, int | None]]:
        """For each prompt the seed of its random tokens, None of a text, and how many tokens it has."""
        seeds = [None if self.seed is None else self.seed + at for at in range(len(self.lengths))]
        return [{"seed": seed, "tokens": n} for seed, n in zip(seeds, self.lengths, strict=True)]

    @property
    def named_by(self) -> str:
        """The number on a kind's keys that names a head: on a text "share" of non-sink weight, else "weight"."""
        return "weight" if self.seed is not None else "share"

    def arrays(self) -> dict[str, np.ndarray]:
        """`streams` (self ...), `layers`, `heads`, `kv_heads` and `kind` of all N heads `[N]`, and `kinds` `[K]`."""
        parts = [(summary, part.arrays()) for summary, part in self.parts]
        arrays = {
            "streams": np.array([summary.place.stream for summary, _ in parts for _ in summary.place.heads]),
            "layers": np.array([summary.place.layer for summary, _ in parts for _ in summary.place.heads]),
            "heads": np.array([head for summary, _ in parts for head in summary.place.heads]),
            "kv_heads": np.array([group for summary, _ in parts for group in summary.place.groups]),
        }
        names = parts[0][1] if parts else {}
        arrays |= {name: np.concatenate([values[name] for _, values in parts]) for name in names}
        return arrays | {"kinds": np.array([kind.name for kind in KINDS])}


def head_kinds(
    source: Source, text: str | None = None, *, seed: int = 0, selection: Selection | None = None
) -> KindMap:
    """The kind of every head of a model (induction, previous token ...), as `attn heads --kinds`.

    By its weight on the keys that define a kind, its targets, against that of uniform attention.

    source     a model or a table, as `open_source` opens it
    text       the text to judge on, by the share of what heads don't give to sinks; None: random tokens written twice
    seed       of the random tokens, and of the keys that are compared with targets
    selection  layers and heads; None for all
    """
    prompts = source.repeated(seed) if text is None else source.read([text])
    collected = CollectedKinds(prompts, seed, by_share=text is not None)
    for start in range(0, len(prompts), source.batch_size):
        batch = prompts[start : start + source.batch_size]
        source.each(batch, selection or ALL, collected.visit)
    return KindMap(collected.summaries, None if text is not None else seed, tuple(len(x.tokens) for x in prompts))


class CollectedKinds:
    """Sums each head's weights on the keys that define kinds (induction ...) over the rows of each of several prompts.

    seed      of the random keys that repeats of a token are compared with
    by_share  whether heads are named by their share of non-sink weight; else by their weight
    """

    def __init__(self, prompts: Sequence[Prompt], seed: int, *, by_share: bool) -> None:
        streams = [tokens for prompt in prompts for tokens in (prompt.tokens, *prompt.others.values())]
        self.reducer = HeadKindsReducer(KindTexts(streams, seed=seed, by_share=by_share))
        self._summaries: dict[Place, Summary] = {}

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """For each attention module and run of it, in the order of the forward pass, `HeadKinds` of all prompts."""
        return tuple(self._summaries.values())

    def visit(self, call: Call) -> None:
        """Keep for each head of a layer, in one prompt, the sums over rows of its weights on keys that define kinds."""
        summary = reduce(call, self.reducer)
        place = replace(call.place, text=0)
        earlier = self._summaries.get(place)
        self._summaries[place] = summary if earlier is None else _together(earlier, summary)


def _together(one: Summary, other: Summary) -> Summary:
    first, second = one.part(HeadKinds), other.part(HeadKinds)
    assert first is not None and second is not None
    return replace(one, parts=(replace(first, texts=first.texts + second.texts),))


def recorded_kinds(recording: Recording) -> tuple[Summary, ...]:
    """What each head of a recorded text attends to: for each layer a summary with a part `HeadKinds`."""
    kinds = TextKinds()
    return tuple(reduce(layer, *([kinds.reducer(layer)] if layer.is_kept else [])) for layer in recording.layers)


def with_kinds(report: Report) -> Report:
    """The report of one text with the kinds of its heads (induction ...) as its answer, in place of its summaries."""
    lengths = tuple(len(prompt.tokens) for prompt in report.prompts)
    answer = KindMap(report.summaries, None, lengths, copying=report.copying)
    return replace(report, answer=answer, summaries=())
