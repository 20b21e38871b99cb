"""The story of an answer: what comes next, and by measured changes the words and heads that it rests on."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from attn_cli.call import Call, Look
from attn_cli.errors import LoadError
from attn_cli.model.intervention import Experiment, HeadPlace, ablate, hide, without_rounding
from attn_cli.model.source import Predicting, Source
from attn_cli.prompt import Prompt
from attn_cli.recording import Recording
from attn_cli.selection import Selection
from attn_cli.summaries.calls.hidden_keys import of_whole_call
from attn_cli.summaries.parts.text_parts import TextPart, parts_of, rows_before_generated, rows_of_last
from attn_cli.summaries.reduce import Reducer, Summary, reduce, with_part
from attn_cli.summaries.reducers.keys import DecidingRows, DecidingRowsReducer, whole_row
from attn_cli.summaries.sinks import special_places
from attn_cli.summaries.text_sinks import text_sinks
from attn_cli.text import cut_after_word, decimal_bytes, quoted

_OF_FREE_MEMORY = 0.5  # of the free memory, for the keys and values that an experiment keeps
LEAST_BITS = 0.1  # of an effect that is told
SHORT = 200  # tokens of a text that is told by its words; of a longer one the last line is, the others as wholes
_WORDS, _HEADS, _FEWEST = 8, 24, 24  # tried at most; of both together at least so many
_MOST_ROWS = 64  # of a last part that reads; of a longer one the last row reads alone
_LONGEST = 60  # characters of a word, or an answer, in a sentence
LEAST_WEIGHT = 0.1  # of a head on a word that it is said to read

Cell: TypeAlias = tuple[int, int, int, int]
Story: TypeAlias = dict[str, Any]
Row: TypeAlias = Mapping[str, Any]
_KEPT = {"answer", "generated", "probability", "next", "rows", "cut", "words", "heads", "noise", "obstacle"}
_ROWS = {
    "next": {"token", "id", "probability"},
    "words": {"name", "text", "key", "tokens", "bits"},
    "heads": {"stream", "layer", "head", "bits", "key", "key_token", "weight"},
}
Seen: TypeAlias = Sequence[tuple[Summary, DecidingRows]]


def resting_keys(seen: Seen) -> set[int]:
    """The keys that heads rest on whatever they say: the first of causal text, special tokens, sinks of the text."""
    (summary, part), first = seen[0], {0} if seen[0][1].causal else set()
    sinks = {sink["key"] for sink in text_sinks(summary for summary, _ in seen)}
    return (first | set(special_places(summary.keys).tolist()) | sinks) - set(part.rows if len(part.rows) == 1 else ())


def read_shares(seen: Seen) -> np.ndarray:
    """The share of each of m keys in what the rows that choose the answer read `[m]`, 0 to 1, mean over layers."""
    lengths = [np.sqrt(part.strength) for _, part in seen]
    shares: np.ndarray = np.mean([each / max(each.sum(), np.finfo(float).tiny) for each in lengths], axis=0)
    return shares


def kept_story(told: Mapping[str, Any] | None, rows: Sequence[int] | None = None) -> Story | None:
    """The story that a recording keeps of these rows, or its first; None where it keeps none."""
    stories = dict(told or {})
    story = next(iter(stories.values()), None) if rows is None else stories.get(kept_name(rows))
    if story is not None and not _is_story(story):
        raise LoadError("the story in this recording can't be read", "record the text again")
    return story


def _is_story(story: object) -> bool:
    return (
        isinstance(story, dict)
        and story.keys() == _KEPT
        and all(isinstance(row, dict) and names <= row.keys() for name, names in _ROWS.items() for row in story[name])
    )


def recorded_cell(recording: Recording, head: Row, rows: Sequence[int], tokens: int = 1) -> Cell | None:
    """A head's cell by indices of layer, head, query and key: of most weight, but the last row's if that has half."""
    for at, layer in enumerate(recording.layers):
        place, key, rows = layer.place, head["key"], [row for row in rows if row < layer.n]
        is_layer = (head.get("stream", place.stream), head["layer"]) == (place.stream, place.layer)
        if is_layer and head["head"] in place.heads and rows and key < layer.m:
            number = place.heads.index(head["head"])
            given = (
                layer.weights(number, np.array(rows), slice(key, key + tokens)) if layer.is_kept else np.ones((1, 1))
            )
            row = -1 if 2 * given[-1].max() >= given.max() else int(given.max(axis=1).argmax())
            return at, number, rows[row], key + int(given[row].argmax())
    return None


def kept_name(rows: Sequence[int]) -> str:
    """The name under which a recording keeps the story of these rows."""
    return ",".join(map(str, rows))


def needed(rows: Iterable[Row]) -> list[Row]:
    """The words, or heads, without which log2 p of the answer falls by 0.1 bits or more, the most needed first."""
    return [row for row in rows if row["bits"] <= -LEAST_BITS]


def readers(story: Story, word: Row) -> list[Row]:
    """The heads that bring the answer and attend to a word most, the most needed first."""
    return [head for head in needed(story["heads"]) if 0 <= head["key"] - word["key"] < word["tokens"]]


def head_cell(recording: Recording, story: Story, head: Row) -> Cell | None:
    """The cell of a story's head, or of a word that tells its head, in a row that chooses the answer."""
    return recorded_cell(recording, head, story["rows"] if story["generated"] else story["rows"][-1:])


def finding(story: Story) -> str:
    """What the answer needs most: `"John" needs "Mary" 14: -4.90 bits without it`; else how likely it is."""
    answer = quoted(cut_after_word(story["answer"].strip(), _LONGEST))
    for word in needed(story["words"])[:1]:
        return f"{answer} needs {quoted(cut_after_word(word['text'], _LONGEST))}: {word['bits']:+.2f} bits without it"
    return f"{'wrote' if story['generated'] else 'next'} {answer}, {likelihood(story)}"


def likelihood(story: Story) -> str:
    """The probability of the answer, `43%`; of several generated tokens its geometric mean, `27% a token`."""
    count = len(story["rows"]) if story["generated"] else 1
    return percent(story["probability"] ** (1 / count)) + " a token" * (count > 1)


def percent(p: float) -> str:
    """A probability: `43%`, `0.4%` or `1.2e-05`."""
    return f"{p:.0%}" if p >= 0.01 else f"{p:.1%}" if p >= 0.001 else f"{p:.1e}"


def main_head(story: Story) -> Row | None:
    """The most needed head that reads the word of the prompt needed most, else any; None without one."""
    words = sorted(needed(story["words"]), key=lambda word: word["name"].startswith("generated"))
    return next(chain(*(readers(story, word) for word in words), needed(story["heads"])), None)


def head_place(head: Row) -> HeadPlace:
    """Where the head of a story's row is in the model."""
    return HeadPlace(head["layer"], head["head"], head["stream"])


def deciding_rows(prompt: Prompt) -> tuple[int, ...]:
    """The rows that choose the answer: those before generated tokens, an image's [CLS], the last, or last part's."""
    if chosen := rows_before_generated(prompt):
        return chosen
    if whole_row(prompt.tokens) == 0 and all(token.special or token.row is not None for token in prompt.tokens):
        return (0,)
    tokens = prompt.others.get("decoder", prompt.tokens)
    rows = rows_of_last(prompt, _cut(prompt)[1]) if len(tokens) > SHORT and "decoder" not in prompt.others else ()
    return rows if 0 < len(rows) <= _MOST_ROWS else (len(tokens) - 1,)


def tell(
    experiment: Experiment,
    prompt: Prompt,
    summaries: Sequence[Summary],
    step: Callable[[int, int], None] = lambda done, count: None,
) -> Story | None:
    """The words and heads that the answer of a prompt needs, found by hiding and ablating in the last rows."""
    target, rows = experiment.target, list(experiment.rows)
    if target is None:
        return None
    written = prompt.generated.text if target.generated and prompt.generated is not None else ""
    story: Story = {"rows": rows, "cut": "words", "words": [], "heads": [], "noise": 0.0, "obstacle": ""}
    story |= {
        "answer": written or "".join(token.text for token in target.tokens),
        "generated": target.generated,
        "probability": target.probability,
        "next": [{"token": token.text, "id": token.id, "probability": p} for token, p in experiment.likeliest],
    }
    seen = with_part(summaries, DecidingRows)
    if not seen or seen[0][0].keys != prompt.tokens:
        return story | {"obstacle": "the rows that decide don't read the text"}
    story["cut"], parts = _cut(prompt)
    sinks = resting_keys(seen)
    budget = max(len(prompt.tokens) // len(rows), _FEWEST)  # runs of these rows that take about one pass
    tried = _words_tried(parts, seen, sinks, rows[-1], budget)
    if story["cut"] != "words":  # the part that asks is told by its words
        asked = {*rows_of_last(prompt, parts)}
        words = [word for word in parts_of(prompt, "words") if not asked.isdisjoint(word.tokens)]
        tried = [pair for pair in tried if asked.isdisjoint(pair[0].tokens)]
        tried += _words_tried(words, seen, sinks, rows[-1], budget)
    estimates = experiment.estimated_effects() if tried else {}
    ranked = _heads_ranked(seen, sinks, {at for _, tokens in tried for at in tokens}, estimates)
    reading = [_reader(tokens, seen, estimates) for _, tokens in tried]
    count, of_words = min(_HEADS, budget - len(tried)), [head_place(head) for head in reading if head]
    heads = ranked[:count] + [head for head in ranked[count:] if head_place(head) in of_words]
    choosing = tuple(sorted(set(target.rows)))
    trials = [hide(tokens) for _, tokens in tried]
    trials += [ablate(head_place(head), rows=choosing) for head in heads]
    step(0, len(trials))
    effects = []
    for outcome in experiment.outcomes(trials, from_cache=True):
        effects.append(outcome.effect)
        step(1, len(trials))
    if len(effects) < len(trials):
        return story | {"obstacle": experiment.no_cache_reason or "the last rows can't run alone"}
    effects = [without_rounding(effect, experiment.noise) for effect in effects]
    heads = [head | {"bits": bits} for head, bits in zip(heads, effects[len(tried) :], strict=True)]
    for (part, _), bits, head in zip(tried, effects, reading, strict=False):
        word = {"name": part.name, "text": part.text(prompt.text).strip(), "key": part.tokens[0]}
        is_kept = bool(head) and head_place(head) in map(head_place, heads)
        of_head = {name: head[name] for name in ("layer", "head", "weight") if is_kept}
        story["words"].append(word | {"tokens": len(part.tokens), "bits": bits} | of_head)
    story["words"].sort(key=lambda word: word["bits"])
    return story | {"heads": sorted(heads, key=lambda head: head["bits"]), "noise": experiment.noise}


def _cut(prompt: Prompt) -> tuple[str, tuple[TextPart, ...]]:
    """The division of a text: into words, of a long one into lines, or into sentences where a line holds half of it."""
    if len(prompt.tokens) > SHORT:
        for how in ("lines", "sentences"):
            parts = parts_of(prompt, how)
            given = [len(part.tokens) for part in parts if part.kind == "given"]
            if len(given) > 2 and (how == "sentences" or 2 * max(given) <= len(prompt.tokens)):
                return how, parts
    return "words", parts_of(prompt, "words")


def _words_tried(
    parts: Sequence[TextPart], seen: Seen, sinks: set[int], last: int, budget: int
) -> list[tuple[TextPart, tuple[int, ...]]]:
    strength = np.sum([part.strength for _, part in seen], axis=0)
    given = (part for part in parts if part.kind != "other")
    own = ((part, tuple(at for at in part.tokens if at not in sinks and at != last)) for part in given)
    tried = sorted((pair for pair in own if pair[1]), key=lambda pair: -float(strength[list(pair[1])].sum()))
    return tried[: min(_WORDS, -(-budget // 2))]


def _heads_ranked(
    seen: Seen, sinks: set[int], hidden: set[int], estimates: Mapping[HeadPlace, float]
) -> list[dict[str, Any]]:
    """The heads that may be ablated, each with the token past sinks that has its largest weight, and that weight."""
    heads: list[tuple[float, float, dict[str, Any]]] = []
    for head, summary, keys, weights, lengths in _heads_of(seen):
        read = ~np.isin(keys, [*sinks]) if estimates else np.isin(keys, [*hidden])
        most = int(np.where(read, weights, -1.0).argmax())
        if read[most] and weights[most] >= LEAST_WEIGHT:
            key = {"key": int(keys[most]), "key_token": summary.keys[keys[most]].text}
            told = head | key | {"weight": float(weights[most])}
            heads.append((abs(estimates.get(head_place(head), 0.0)), float(lengths[most]), told))
    # an estimate is of first order, and misses heads that saturate: the strongest readers take turns with them
    by_effect, by_length = sorted(heads, key=lambda row: -row[0]), sorted(heads, key=lambda row: -row[1])
    turns = chain.from_iterable(zip(by_effect, by_length, strict=True)) if estimates else by_length
    return [*{head_place(head): head for *_, head in turns}.values()]


def _reader(tokens: tuple[int, ...], seen: Seen, estimates: Mapping[HeadPlace, float]) -> dict[str, Any]:
    """The head that reads a word most in the rows that decide, with its mean weight on the word; {} without one."""
    found = []
    for head, _, keys, weights, lengths in _heads_of(seen):
        own = np.isin(keys, tokens)
        weight = float(weights[own].sum())
        if weight >= LEAST_WEIGHT:
            order = max(0.0, -estimates.get(head_place(head), 0.0)) * weight, float(lengths[own].sum())
            found.append((order, head | {"weight": weight}))
    return max(reversed(found), key=lambda pair: pair[0], default=(0, {}))[1]


def _heads_of(seen: Seen) -> Iterator[tuple[dict[str, Any], Summary, np.ndarray, np.ndarray, np.ndarray]]:
    """Each head's place, and what it reads most in the rows that decide: keys, weights, lengths `[k]`."""
    for summary, part in seen:
        place = summary.place
        for head, *read in zip(place.heads, part.keys, part.weights, part.lengths, strict=True):
            yield {"stream": place.stream, "layer": place.layer, "head": head}, summary, *read


def opened_to_tell(opened: Callable[[bool], Source]) -> Source:
    """A model with its LM head, or without where that can't be loaded: a folder may lack the weights of the head."""
    try:
        return opened(True)
    except LoadError:
        return opened(False)


def deciding_reducers(call: Call, prompt: Prompt, rows: tuple[int, ...]) -> tuple[Reducer, ...]:
    """The reducers that collect what heads attend to in `rows`, those that choose what comes next, of one call."""
    if call.queries != prompt.tokens or call.keys != prompt.tokens:
        return ()
    return (of_whole_call(DecidingRowsReducer(rows, choosing=rows_before_generated(prompt) or rows[-1:]), call),)


def look_and_tell(
    source: Source,
    prompt: Prompt,
    rows: tuple[int, ...] | None,
    look: Look,
    summaries: Sequence[Summary],
    forget: Callable[[], None],
    free: int | None,
    step: Callable[[int, int], None] = lambda done, count: None,
) -> tuple[Story | None, tuple[str, ...]]:
    """Run a prompt, whose calls `look` sums up: the story of its rows, if model and memory allow one, and notes."""
    experiment, notes = None, tuple[str, ...]()
    if rows is not None and isinstance(source, Predicting) and source.has_lm_head:
        kept = source.experiment_bytes(len(prompt.tokens))
        if free is not None and kept > free * _OF_FREE_MEMORY:
            words = f"what comes next is not told: the keys and values of {len(prompt.tokens):,} tokens"
            notes = (f"{words} take {decimal_bytes(kept)}",)
        else:
            with suppress(LoadError, MemoryError):
                experiment = source.experiment(prompt, rows, look=look)
    if experiment is None or not experiment.visited:
        forget()
        source.each([prompt], *look)
    return None if experiment is None else tell(experiment, prompt, summaries, step), notes


def looked_and_told(
    source: Source,
    prompt: Prompt,
    selection: Selection,
    reducers: Callable[[Call], Sequence[Reducer]],
    free: int | None,
    step: Callable[[], object] = int,
    trial: Callable[[int, int], None] = lambda done, count: None,
    *,
    tells: bool = True,
) -> tuple[list[Summary], Story | None, tuple[str, ...]]:
    """What reducers make of each call of a text, the story of its answer where it `tells` one, and notes."""
    rows, summaries = deciding_rows(prompt), list[Summary]()

    def visit(call: Call) -> None:
        summaries.append(reduce(call, *reducers(call), *deciding_reducers(call, prompt, rows)))
        step()

    look = Look(selection, visit)
    story, notes = look_and_tell(source, prompt, rows if tells else None, look, summaries, summaries.clear, free, trial)
    return summaries, story, notes
