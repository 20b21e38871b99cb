"""The story of an answer: what comes next, the words that it needs, the heads that bring them."""

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

from rich.cells import cell_len
from rich.text import Text

from attn_cli.prompt import Prompt, Token
from attn_cli.recording import Recording
from attn_cli.summaries.answer import head_name
from attn_cli.summaries.told.story import (
    LEAST_BITS,
    Row,
    Story,
    head_cell,
    kept_story,
    likelihood,
    needed,
    percent,
    readers,
)
from attn_cli.text import cut_after_word, quoted, visible
from attn_cli.views.drawing.bars import bar, bar_style
from attn_cli.views.drawing.cells import BOLD, DIM, fit, packed
from attn_cli.views.drawing.figure import written
from attn_cli.views.drawing.screen import Screen

_MARGIN, _BAR = 9, 12  # columns of what a line is about, and of the longest bar
_LEAST_PERCENT = 0.01  # of a next token that is named after the first
_LEAST_SHARE = 0.1  # of the largest effect, of a word that is shown
_MOST_WORDS, MOST_HEADS, _MOST_AGAINST = 5, 3, 4
_WHOLE = ("line ", "sentence ")  # how the name begins of a part of a long text that is no word
_LONGEST, _NAME = 60, 20  # characters of the generated text, and columns of a word


def draw(story: Story, prompt: Prompt, screen: Screen) -> Iterator[Text]:
    """Lines: the predicted token or the answer, the words and heads that it needs, those against it."""
    yield Text()
    name, *answers = answer_words(story, prompt)
    yield from named(name, answers, screen)
    if story["obstacle"]:
        yield from named("needs", [f"not measured: {visible(story['obstacle'])}"], screen)
        return
    words, heads = words_told(story), needed(story["heads"])
    if words:
        yield from _needs(story, words, screen)
    elif story["words"]:
        told = f"no single {story['cut'].removesuffix('s')}: none of {len(story['words'])} costs it {LEAST_BITS} bits"
        yield from named("needs", [told], screen)
    if heads and all(word["name"].startswith(_WHOLE) for word in words):
        keys = [token_name(Token(head["key"], head["key_token"])) for head in heads[:MOST_HEADS]]
        pieces = [f"{head_name(head)} {head['bits']:+.2f} on {key}" for head, key in zip(heads, keys, strict=False)]
        yield from named("by", pieces, screen)
    if held_back := against(story):
        yield from named("against", held_back, screen)


def answer_words(story: Story, prompt: Prompt, longest: int = _LONGEST) -> list[str]:
    """`next`, the likeliest tokens with their probabilities; or `wrote`, what the model generated."""
    if story["generated"]:
        quote = "" if prompt.generated is None else prompt.generated.quote
        text = cut_after_word(visible(quote or story["answer"].strip()), longest)
        return ["wrote", f'"{text}"', likelihood(story)]
    kept = [row for at, row in enumerate(story["next"]) if not at or row["probability"] >= _LEAST_PERCENT]
    return ["next", *(f"{quoted(row['token'])} {percent(row['probability'])}" for row in kept)]


def words_told(story: Story) -> list[Row]:
    """The words, or parts of a long text, that the answer needs, as far as they come near the first."""
    words = needed(story["words"])[:_MOST_WORDS]
    return [word for word in words if word["bits"] <= _LEAST_SHARE * words[0]["bits"]]


def against(story: Story) -> list[str]:
    """The words and heads without which the answer is likelier, with how many bits."""
    gains = [(word_label(word, story), word["bits"]) for word in story["words"]]
    gains += [(f"head {head_name(head)}", head["bits"]) for head in story["heads"]]
    gains = sorted((pair for pair in gains if pair[1] >= LEAST_BITS), key=lambda pair: -pair[1])
    return [f"{name} {bits:+.2f}" for name, bits in gains[:_MOST_AGAINST]]


def named(name: str, pieces: Sequence[str], screen: Screen) -> Iterator[Text]:
    """`next     "John" 43%   "Mary" 15%`, in as many lines as it takes."""
    for number, line in enumerate(packed(pieces, screen.width - _MARGIN, "   ")):
        yield Text().append((name if not number else "").ljust(_MARGIN), BOLD).append(line)


def token_name(token: Token) -> str:
    """A token in quotes with its place in the text: `"Mary" 14`."""
    return f"{fit(quoted(token.text), _NAME).rstrip()} {token.index}"


def _needs(story: Story, words: Sequence[Row], screen: Screen) -> Iterator[Text]:
    """`needs    "Mary" 14  -4.90 bits  ████  brought by 23.3  20.0`: a line for each word, or part of a long text."""
    labels = [word_label(word, story) for word in words]
    width = max(map(cell_len, labels))
    longest = max(abs(word["bits"]) for word in words)
    for at, (word, label) in enumerate(zip(words, labels, strict=True)):
        line = Text().append(("" if at else "needs").ljust(_MARGIN), BOLD)
        line.append(f"{fit(label, width)}  {word['bits']:+6.2f}{'     ' if at else ' bits'}")
        room = screen.width - line.cell_len - 2
        if room >= _BAR:
            line.append("  ").append(fit(bar(-word["bits"], _BAR, longest), _BAR), bar_style(screen.depth))
            room -= _BAR
        if word["name"].startswith(_WHOLE):
            line.append(f"  {fit(' '.join(word['text'].split()), room - 2)}" if room > _BAR else "", DIM)
        elif heads := [head_name(head) for head in readers(story, word)][:MOST_HEADS]:
            lead = "  " + ("" if at else "brought by").ljust(10)
            names = "".join(f"  {name}" for name in heads)
            line.append(lead + names if len(lead + names) <= room + 2 else "")
        line.rstrip()
        yield line


def word_label(word: Row, story: Story) -> str:
    """A word of the story in quotes with its place, `"Mary" 14`; a part of a long text by its name."""
    if word["name"].startswith(_WHOLE):
        return str(word["name"])
    first, last = word["key"], word["key"] + word["tokens"] - 1
    return f"{fit(quoted(word['text']), _NAME).rstrip()} {first}" + (f"-{last}" if last > first else "")


def legend(story: Story, prompt: Prompt, screen: Screen) -> Iterator[Text]:
    """What the bits are; nothing where none are shown."""
    rows, noun = story["rows"], "word" if story["cut"] == "words" else f"word or {story['cut'].removesuffix('s')}"
    if not any(row["bits"] > 0 or row["bits"] <= -LEAST_BITS for row in (*story["words"], *story["heads"])):
        return
    what = "the answer" if story["generated"] else quoted(story["answer"])
    if story["generated"]:
        where = "the rows that chose it"
    elif len(rows) > 1:
        where = f"the last {len(rows)} rows"
    else:
        where = "the last row" if rows[-1] == len(prompt.tokens) - 1 else f"row {rows[0]}"
    removed = ", or the head removed," if any(abs(head["bits"]) >= LEAST_BITS for head in story["heads"]) else ""
    told = f"bits: what {what} loses when the {noun} is hidden{removed} in {where}"
    yield from (Text(line, DIM) for line in wrap(told, screen.width))


def linked_lines(recording: Recording) -> Iterator[list[dict[str, Any]]]:
    """Lines of the story: pieces of text, some with the cell that they open, by indices of layer, head, query, key."""
    if (story := kept_story(recording.told)) is None:
        return

    def piece(words: str, *heads: Row) -> dict[str, Any]:
        cell = head_cell(recording, story, heads[0]) if heads else None
        return {"text": written(words)} | ({} if cell is None else {"cell": cell})

    (name, answer, *others), main = answer_words(story, recording.prompt), needed(story["heads"])[:MOST_HEADS]
    ordered = sorted(words_told(story), key=lambda word: word["name"].startswith("generated"))
    heads_of = [readers(story, word)[:MOST_HEADS] or [word] * ("layer" in word) for word in ordered]
    words = [(word_label(word, story), word, heads) for word, heads in zip(ordered, heads_of, strict=True)]
    # a word that no head reads opens the answer's head at its first token
    first = [piece(label, *heads, *({**head, "key": word["key"]} for head in main)) for label, word, heads in words]
    first = first or [piece(head_name(head), head) for head in main]
    yield [piece(f"{name} {answer}"), *[piece("needs" if words else "by")] * bool(first), *first]
    if others:
        yield [*[piece("or")] * (not story["generated"]), *map(piece, others)]
    if story["obstacle"]:
        yield [piece(f"needs: not measured: {story['obstacle']}")]
    for label, word, heads in words:
        said = [piece(" ".join(word["text"].split()))] if word["name"].startswith(_WHOLE) else []
        by = ", read by" if heads == [word] else ", brought by" * bool(heads)
        said.append(piece(f"{word['bits']:+.2f} bits without it{by}"))
        yield [piece(label), *said, *(piece(head_name(head), head) for head in heads)]
    if gains := against(story):
        yield [piece("against"), *map(piece, gains)]
