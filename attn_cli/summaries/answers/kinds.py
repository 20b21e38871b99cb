"""attn heads --kinds: what every head looks at, against uniform attention, on a text or on repeated random tokens."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from attn_cli.call import Call, Place
from attn_cli.model.source import Source
from attn_cli.prompt import Prompt
from attn_cli.recording import Recording
from attn_cli.selection import Selection
from attn_cli.summaries.answer import Answer, Next, Shape, Table, head_choice
from attn_cli.summaries.answers.calls import lead
from attn_cli.summaries.reduce import Summary, reduce, with_part
from attn_cli.summaries.reducers.kinds.reducer import HEAD_COLUMNS, HeadKinds, HeadKindsReducer, KindNumbers
from attn_cli.summaries.report import Report
from attn_cli.summaries.standing_out import families, finding, standing_out
from attn_cli.summaries.text_sinks import sink_words, text_sinks
from attn_cli.summaries.told.overview import word_readers

_FAMILY = ("family", "heads", "weight", "strongest")
SHAPE = Shape(
    "attn.kinds/3",
    "The kind of every head by what it attends to.",
    {
        "kinds": ("stream?", "module?", "call?", *HEAD_COLUMNS),
        "families": _FAMILY,
        "sinks": ("stream", "key", "key_token", "head_share", "weight", "value_norm", "residual_norm"),
        "prompts": ("seed", "tokens"),
    },
    screen={"families": _FAMILY},
    legend=("weight: what the head named first gives the keys of its kind, mean over rows",),
    several_texts=True,
)


def kinds_of(
    summaries: Sequence[Summary], prompts: Sequence[Prompt], seed: int | None = None, *, listed: bool = False
) -> Answer:
    """The kind of every head of these calls, as tables of `SHAPE`; `seed` of random tokens, None on a text."""
    sinks, judged = text_sinks(summaries) if seed is None else [], with_part(summaries, HeadKinds)
    tables = {
        "kinds": Table.of(lead(summaries, summary) | row for summary, part in judged for row in part.records(summary)),
        "families": Table.of(families(summaries, listed=listed)),
        "sinks": Table.of(sinks),
        "prompts": Table.of(
            {"seed": None if seed is None else seed + at, "tokens": len(prompt.tokens)}
            for at, prompt in enumerate(prompts)
        ),
    }
    findings = [finding(summaries), *sink_words(sinks)]
    onwards = Next("heads", None if seed is None else (), ("--kinds", "-v"))
    if seed is not None:
        lengths = ", ".join(str(len(prompt.tokens)) for prompt in prompts)
        findings.append(f"judged on repeated random tokens: {lengths}, from seed {seed} on")
    if listed and seed is not None:
        onwards = Next("inspect", ("he sat on the river bank",))
    elif listed and (out := next(iter(standing_out(summaries)), None)):
        place = {"stream": summaries[out.call].place.stream, "layer": out.layer, "head": out.head}
        onwards = Next("matrix", None, ("-H", head_choice(place)))
    return Answer(SHAPE, tuple(findings), tables, next=onwards)


def judge_heads(
    source: Source, prompts: Sequence[Prompt], seed: int | None, selection: Selection, step: Callable[[], object] = int
) -> Report:
    """What every head of a model attends to, over all prompts, as `HeadKinds`; `seed` of random tokens, or None."""
    texts = [tokens for each in prompts for tokens in (each.tokens, *each.others.values())]
    reducer = HeadKindsReducer(texts, seed or 0)
    found: dict[Place, list[Summary]] = {}

    def visit(call: Call) -> None:
        found.setdefault(replace(call.place, text=0), []).append(reduce(call, reducer))
        step()

    for start in range(0, len(prompts), source.batch_size):
        source.each(prompts[start : start + source.batch_size], selection, visit)
    judged = []
    for summaries in found.values():
        parts = [part for _, part in with_part(summaries, HeadKinds)]
        together = replace(parts[0], numbers=KindNumbers.together([part.numbers for part in parts]))
        judged.append(replace(summaries[0], parts=(together,)))
    return Report("kinds", source.about, (*prompts,), (*judged,))


def recorded_kinds(recording: Recording) -> tuple[Summary, ...]:
    """What each head of a recorded text attends to, a part `HeadKinds`, and each word, `WordReads`; by layer."""
    kinds = HeadKindsReducer()
    return tuple(reduce(layer, *([kinds, *word_readers(layer)] if layer.is_kept else [])) for layer in recording.layers)
