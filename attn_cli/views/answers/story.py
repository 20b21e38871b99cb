"""The story of an answer: what comes next, the words that it needs, the heads that bring them."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.cells import cell_len
from rich.text import Text

from attn_cli.prompt import Token
from attn_cli.summaries.told.story import LEAST_BITS, Story, StoryHead, StoryWord
from attn_cli.text import cut_after_word, quoted, visible
from attn_cli.views.drawing.bars import bar, bar_style
from attn_cli.views.drawing.cells import fit, packed
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM

_MARGIN, _BAR = 9, 12  # columns of what a line is about, and of the longest bar
_LEAST_PERCENT = 0.01  # of a next token that is named after the first
_LEAST_SHARE = 0.1  # of the largest effect, of a word that is shown
_MOST_WORDS, _MOST_HEADS, _MOST_AGAINST = 5, 3, 4
_LONGEST, _NAME = 60, 20  # characters of the generated text, and columns of a word


def draw(story: Story, screen: Screen) -> Iterator[Text]:
    """Lines: the predicted token or the answer, the words and heads that it needs, those against it."""
    yield Text()
    if story.target.generated:
        quote = "" if story.written is None else story.written.quote
        text = cut_after_word(visible(quote or story.answer.strip()), _LONGEST)
        yield from named("wrote", [f'"{text}"', f"p {story.target.probability:.2g}"], screen)
    else:
        kept = [pair for at, pair in enumerate(story.likeliest) if not at or pair[1] >= _LEAST_PERCENT]
        yield from named("next", [f"{quoted(token.text)} {_percent(p)}" for token, p in kept], screen)
    if story.obstacle:
        yield from named("needs", [f"not measured: {visible(story.obstacle)}"], screen)
        return
    needed = [word for word in story.needed[:_MOST_WORDS] if word.effect <= _LEAST_SHARE * story.needed[0].effect]
    if needed:
        yield from _needs(story, needed, screen)
    elif story.words:
        noun = story.cut.removesuffix("s")
        yield from named("needs", [f"no single {noun}: none of {len(story.words)} costs it {LEAST_BITS} bits"], screen)
    if story.bringing and (story.cut != "words" or not needed):
        yield from named("by", [_head(head) for head in story.bringing[:_MOST_HEADS]], screen)
    if against := _against(story):
        yield from named("against", against, screen)


def named(name: str, pieces: Sequence[str], screen: Screen) -> Iterator[Text]:
    """`next     "John" 43%   "Mary" 15%`, in as many lines as it takes."""
    for number, line in enumerate(packed(pieces, screen.width - _MARGIN, "   ")):
        yield Text().append((name if not number else "").ljust(_MARGIN), BOLD).append(line)


def token_name(token: Token) -> str:
    """A token in quotes with its place in the text: `"Mary" 14`."""
    return f"{fit(quoted(token.text), _NAME).rstrip()} {token.index}"


def _needs(story: Story, needed: Sequence[StoryWord], screen: Screen) -> Iterator[Text]:
    """`needs    "Mary" 14  -4.90 bits  ████  brought by 23.3  20.0`: a line for each word, or part of a long text."""
    labels = [_label(word, story) for word in needed]
    width = max(map(cell_len, labels))
    longest = max(abs(word.effect) for word in needed)
    for at, (word, label) in enumerate(zip(needed, labels, strict=True)):
        line = Text().append(("" if at else "needs").ljust(_MARGIN), BOLD)
        line.append(f"{fit(label, width)}  {word.effect:+6.2f}{'     ' if at else ' bits'}")
        room = screen.width - line.cell_len - 2
        if room >= _BAR:
            line.append("  ").append(fit(bar(-word.effect, _BAR, longest), _BAR), bar_style(screen.depth))
            room -= _BAR
        if story.cut != "words":
            line.append(f"  {fit(' '.join(word.text.split()), room - 2)}" if room > _BAR else "", DIM)
        elif heads := [head.name for head in story.readers_of(word)][:_MOST_HEADS]:
            lead = "  " + ("" if at else "brought by").ljust(10)
            names = "".join(f"  {name}" for name in heads)
            line.append(lead + names if len(lead + names) <= room + 2 else "")
        line.rstrip()
        yield line


def _label(word: StoryWord, story: Story) -> str:
    if story.cut != "words":
        return word.name
    first, last = word.tokens[0].index, word.tokens[-1].index
    return f"{fit(quoted(word.text), _NAME).rstrip()} {first}" + (f"-{last}" if last > first else "")


def _head(head: StoryHead) -> str:
    return f"{head.name} {head.effect:+.2f} on {token_name(head.reads[0])}"


def _against(story: Story) -> list[str]:
    words = [word for word in reversed(story.words) if word.effect >= LEAST_BITS]
    named = [(_label(word, story), word.effect) for word in words]
    named += [(f"head {head.name}", head.effect) for head in story.opposing]
    return [f"{name} {effect:+.2f}" for name, effect in sorted(named, key=lambda pair: -pair[1])[:_MOST_AGAINST]]


def legend(story: Story, screen: Screen) -> Iterator[Text]:
    """What the bits are; nothing where none are shown."""
    if not (story.needed or story.bringing or story.opposing or any(word.effect > 0 for word in story.words)):
        return
    what = "the answer" if story.target.generated else quoted(story.target.tokens[0].text)
    if story.target.generated:
        rows = "the rows that chose it"
    elif len(story.rows) > 1:
        rows = f"the last {len(story.rows)} rows"
    else:
        rows = "the last row" if story.is_last else f"row {story.rows[0]}"
    said = f"bits: what {what} loses when the {story.cut.removesuffix('s')} is hidden, or the head removed, in {rows}"
    yield from (Text(line, DIM) for line in wrap(said, screen.width))


def _percent(p: float) -> str:
    return f"{p:.0%}" if p >= _LEAST_PERCENT else f"{p:.1%}" if p >= _LEAST_PERCENT / 10 else f"{p:.1e}"
