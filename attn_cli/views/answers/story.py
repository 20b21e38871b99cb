"""The story of an answer: what comes next, the words that it rests on, the heads that bring them; a few lines."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from textwrap import wrap

from rich.cells import cell_len
from rich.text import Text

from attn_cli.prompt import Token
from attn_cli.summaries.told.story import LEAST_BITS, LEAST_WEIGHT, Story, StoryHead, StoryWord
from attn_cli.text import counted, cut_after_word, listed, visible
from attn_cli.views.drawing.cells import fit, packed
from attn_cli.views.drawing.labels import next_word, token_label
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM

_MARGIN = 14  # columns of what a line is about
_NARROW = 60  # columns below which that stands on a line of its own
_LEAST_PERCENT = 0.01  # of a next token that is named after the first
_MOST_WORDS, _MOST_PARTS, _MOST_HEADS, _MOST_AGAINST = 6, 4, 6, 4
_MOST_OF_WORD, _MOST_BESIDE, _NAME = 4, 2, 14  # heads of a word, other words, and columns of a word
_LONGEST = 60  # characters of the generated text


def draw(story: Story, screen: Screen) -> Iterator[Text]:
    """Lines: the predicted token or the answer, the words and heads that it needs, those against it, and captions."""
    yield Text()
    if story.target.generated:
        quote = "" if story.written is None else story.written.quote
        text = cut_after_word(visible(quote or story.answer.strip()), _LONGEST)
        yield from _named("it wrote", [f"{text} (probability {story.target.probability:.2g})"], screen)
    else:
        yield from _named("next token", _likeliest(story.likeliest), screen)
    if story.obstacle:
        yield from _named("it needs", [f"not measured: {visible(story.obstacle)}", "attn parts measures it"], screen)
        return
    what = "them" if story.target.generated else next_word(story.target.tokens[0])
    needed = story.needed
    if story.cut == "words":
        words = [_effect(_label(word), word.effect) for word in needed[:_MOST_WORDS]]
        yield from _named("it needs", words or [_no_word(story, what)], screen)
    else:
        yield from _parts(story, needed[:_MOST_PARTS], what, screen)
    if story.bringing and story.cut == "words":
        yield from _by_word(story, screen)
    elif story.bringing:
        yield from _columns("brought by", [_head(head) for head in story.bringing[:_MOST_HEADS]], screen)
    elif story.heads:
        yield from _named("brought by", [_no_head(story, what)], screen)
    if against := _against(story):
        yield from _named("held back by", against, screen)
    if needed or story.bringing or against:
        yield Text("\n".join(wrap(_legend(story, what), screen.width)), DIM)


def _legend(story: Story, what: str) -> str:
    """What was changed and measured, that effects of heads don't add up, and what was tried beside what is shown."""
    noun = story.cut.removesuffix("s")
    changed = "the generated tokens" if story.target.generated else what
    said = f"bits: change of log2 p({changed}), in {_rows(story)}, with that {noun} masked"
    tried = f"tried: the {counted(len(story.words), noun)} read most there"
    if story.heads:
        place = story.heads[0].place
        said += f" or that head alone ({place.layer}.{place.head}: layer {place.layer}, head {place.head}) set to 0; "
        said += f"one head can do for another, so the heads of a {noun} don't add up to what it brings"
        if story.cut == "words":
            said += _weight_in_words(story)
        else:
            said += "; gives: its largest weight on a token that is no sink"
        by = "of the largest gradients" if story.estimated else "that read them most"
        of_words = ", among them for each word one that reads it" if story.cut == "words" and story.estimated else ""
        tried += f", {counted(len(story.heads), 'head')} {by}{of_words}"
    return f"{said}; {tried}{_untold(story)}"


def _weight_in_words(story: Story) -> str:
    for head in _told_heads(story)[:1]:
        token, weight = head.reads
        name = f"{head.place.layer}.{head.place.head}"
        return f"; ({weight:.2f}): weight of {name} on {token_label(token)}, its largest on a token that is no sink"
    return ""


def _likeliest(likeliest: Sequence[tuple[Token, float]]) -> list[str]:
    kept = [pair for at, pair in enumerate(likeliest) if not at or pair[1] >= _LEAST_PERCENT]
    return [f"{next_word(token)} {_percent(p)}" for token, p in kept]


def _percent(p: float) -> str:
    return f"{p:.0%}" if p >= _LEAST_PERCENT else f"{p:.1%}" if p >= _LEAST_PERCENT / 10 else f"{p:.1e}"


def _effect(name: str, effect: float) -> str:
    return f"{name} {effect:+.2f}"


def _label(word: StoryWord) -> str:
    first, last = word.tokens[0].index, word.tokens[-1].index
    name = token_label(replace(word.tokens[0], text=word.text))
    return name if first == last else f"{first}-{last}{name.removeprefix(str(first))}"


def _no_word(story: Story, what: str) -> str:
    """A line that no single word is needed, with the number of masked words and the largest effect."""
    if not story.words:
        return "no word: the last row reads sinks and itself"
    most = max(abs(word.effect) for word in story.words)
    if len(story.words) == 1:
        return f"no single {story.cut.removesuffix('s')}: the one that is read changes {what} by {most:.2f} bits"
    tried = f"each of the {len(story.words)} most read, masked,"
    if most < LEAST_BITS:
        return f"no single {story.cut.removesuffix('s')}: {tried} changes {what} by under {LEAST_BITS} bits"
    return f"no single {story.cut.removesuffix('s')}: {tried} leaves {what} as likely, or makes it likelier"


def _no_head(story: Story, what: str) -> str:
    heads = counted(len(story.heads), "head")
    which = "tried" if story.estimated else "that read these most"
    return f"no single head: none of the {heads} {which} costs {what} {LEAST_BITS} bits when ablated"


def _parts(story: Story, needed: Sequence[StoryWord], what: str, screen: Screen) -> Iterator[Text]:
    """A line for each part of a long text, with the beginning of its text."""
    if not needed:
        yield from _named("it needs", [_no_word(story, what)], screen)
        return
    names = max(len(word.name) for word in needed)
    margin = _MARGIN if screen.width >= _NARROW else 2
    if margin < _MARGIN:
        yield Text("it needs", BOLD)
    for number, word in enumerate(needed):
        line = Text().append(("it needs" if not number and margin == _MARGIN else "").ljust(margin), BOLD)
        line.append(f"{word.name:{names}} {word.effect:+7.2f}  ")
        room = screen.width - cell_len(line.plain)
        yield line.append(fit(" ".join(word.text.split()), room).rstrip(), DIM)


def _head(head: StoryHead) -> str:
    token, weight = head.reads
    name = f"{head.place.layer}.{head.place.head}"
    return f"{name:<5} {head.effect:+.2f}  gives {fit(token_label(token), 14).rstrip()} {weight:.2f}"


def _by_word(story: Story, screen: Screen) -> Iterator[Text]:
    """`brought by 14 Mary 23.3 -0.60 (0.54) 20.0 -0.59 (0.81)`: for each needed word the heads that read it most."""
    lines = [(_label(word), _of_word(word, story)) for word in story.needed[:_MOST_WORDS]]
    lines += [(token_label(token), [_reading(head) for head in heads]) for token, heads in _beside(story)]
    lines = [(label, pieces) for label, pieces in lines if pieces]
    narrow = screen.width < _NARROW
    width = min(_NAME, max(cell_len(label) for label, _ in lines))
    for number, (label, pieces) in enumerate(lines):
        margin = 2 if narrow else _MARGIN
        if narrow and not number:
            yield Text("brought by", BOLD)
        room = screen.width - margin - width - 2
        for at, line in enumerate(part for each in packed(pieces, room, "  ") for part in wrap(each, room)):
            lead = "" if narrow or number or at else "brought by"
            name = "" if at else fit(label, width)
            yield Text().append(lead.ljust(margin), BOLD).append(f"{name.ljust(width)}  {line}")


def _shown(heads: Sequence[StoryHead]) -> Sequence[StoryHead]:
    return heads[:_MOST_OF_WORD]


def _readers_of(word: StoryWord, story: Story) -> list[StoryHead]:
    own = {token.index for token in word.tokens}
    return [head for head in story.bringing if head.reads[0].index in own]


def _of_word(word: StoryWord, story: Story) -> list[str]:
    """The heads that bring a needed word; where none does alone, the head that reads it most."""
    if heads := _readers_of(word, story):
        return [_reading(head) for head in _shown(heads)]
    if word.reader is None:
        return [f"no head gives it {LEAST_WEIGHT} of its weight"]
    name = f"{word.reader.place.layer}.{word.reader.place.head}"
    if word.reader.effect <= -LEAST_BITS:
        return [f"{name} {word.reader.effect:+.2f} ({word.reader.weight:.2f}; it gives another token more)"]
    return [f"no head alone {LEAST_BITS} or more; most read by {name} ({word.reader.weight:.2f})"]


def _beside(story: Story) -> list[tuple[Token, Sequence[StoryHead]]]:
    """The tokens of no needed word that heads read most which bring the answer, each with these heads; a few."""
    needed = {token.index for word in story.needed[:_MOST_WORDS] for token in word.tokens}
    found: dict[int, list[StoryHead]] = {}
    for head in story.bringing:
        if head.reads[0].index not in needed:
            found.setdefault(head.reads[0].index, []).append(head)
    return [(heads[0].reads[0], _shown(heads)) for heads in found.values()][:_MOST_BESIDE]


def _told_heads(story: Story) -> Sequence[StoryHead]:
    if story.cut != "words":
        return story.bringing[:_MOST_HEADS]
    of_words = [head for word in story.needed[:_MOST_WORDS] for head in _shown(_readers_of(word, story))]
    return [*of_words, *(head for _, heads in _beside(story) for head in heads)]


def _reading(head: StoryHead) -> str:
    return f"{head.place.layer}.{head.place.head} {head.effect:+.2f} ({head.reads[1]:.2f})"


def _untold(story: Story) -> str:
    """`; under 0.1 bits: "5 to", head 20.2; 0.1 bits or more, and not listed: head 18.3`."""
    tried: list[StoryWord | StoryHead] = [*story.words, *story.heads]
    is_small = [each for each in tried if abs(each.effect) < LEAST_BITS]
    most = _MOST_WORDS if story.cut == "words" else _MOST_PARTS
    opposing = [word for word in reversed(story.words) if word.effect >= LEAST_BITS]
    beyond: list[StoryWord | StoryHead] = [*story.needed[most:], *opposing[_MOST_AGAINST:]]
    told = _told_heads(story)
    beyond += [head for head in story.bringing if head not in told]
    beyond += story.opposing[_MOST_AGAINST:]
    said = ((f"under {LEAST_BITS} bits", is_small), (f"{LEAST_BITS} bits or more, and not listed", beyond))
    return "".join(f"; {words}: {listed(_quoted(each, story) for each in those)}" for words, those in said if those)


def _quoted(tried: StoryWord | StoryHead, story: Story) -> str:
    name = _name(tried, story)
    return name if isinstance(tried, StoryHead) or story.cut != "words" else f'"{name}"'


def _name(tried: StoryWord | StoryHead, story: Story) -> str:
    if isinstance(tried, StoryHead):
        return f"head {tried.place.layer}.{tried.place.head}"
    return _label(tried) if story.cut == "words" else tried.name


def _against(story: Story) -> list[str]:
    words = [word for word in reversed(story.words) if word.effect >= LEAST_BITS]
    tried: list[StoryWord | StoryHead] = [*words[:_MOST_AGAINST], *story.opposing[:_MOST_AGAINST]]
    named = [(_name(each, story), each.effect) for each in tried]
    return [_effect(*pair) for pair in sorted(named, key=lambda pair: -pair[1])]


def _rows(story: Story) -> str:
    if story.target.generated:
        return "the rows that chose them"
    if len(story.rows) > 1:
        return f"the last {len(story.rows)} rows, the last {story.cut.removesuffix('s')}"
    return "the last row" if story.is_last else f"row {story.rows[0]}"


def _named(name: str, pieces: Sequence[str], screen: Screen) -> Iterator[Text]:
    """`next          John 43%  Mary 15%`, in as many lines as it takes."""
    if screen.width < _NARROW:
        yield Text(name, BOLD)
        yield from (Text("  " + line) for line in packed(pieces, screen.width - 2, "  "))
        return
    for number, line in enumerate(packed(pieces, screen.width - _MARGIN, "  ")):
        yield Text().append((name if not number else "").ljust(_MARGIN), BOLD).append(line)


def _columns(name: str, pieces: Sequence[str], screen: Screen) -> Iterator[Text]:
    """The lines in columns, two or more of which stand side by side where the screen is wide enough."""
    width = max(cell_len(piece) for piece in pieces)
    room = screen.width - (_MARGIN if screen.width >= _NARROW else 2)
    columns = max(1, (room + 3) // (width + 3))
    lines = [
        "   ".join(fit(piece, width) for piece in pieces[at : at + columns]).rstrip()
        for at in range(0, len(pieces), columns)
    ]
    if screen.width < _NARROW:
        yield Text(name, BOLD)
        yield from (Text("  " + fit(line, room).rstrip()) for line in lines)
        return
    for number, line in enumerate(lines):
        yield Text().append((name if not number else "").ljust(_MARGIN), BOLD).append(line)
