"""The story of an answer: what comes next, the words that it rests on, the heads that bring them; a few lines."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from textwrap import wrap

from rich.cells import cell_len
from rich.text import Text

from attn_cli.prompt import Token
from attn_cli.summaries.told.story import LEAST_BITS, Story, StoryHead, StoryWord
from attn_cli.text import counted, excerpt, listed, visible
from attn_cli.views.drawing.cells import fit, packed
from attn_cli.views.drawing.labels import next_word, token_label
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM

_MARGIN = 14  # columns of what a line is about
_NARROW = 60  # columns below which that stands on a line of its own
_LEAST_PERCENT = 0.01  # of a next token that is named after the first
_MOST_WORDS, _MOST_PARTS, _MOST_HEADS, _MOST_AGAINST = 6, 4, 6, 4
_LONGEST = 60  # characters of the generated text


def draw(story: Story, screen: Screen) -> Iterator[Text]:
    """The predicted token, the words and heads that it needs, those that oppose it, and captions of the numbers."""
    yield Text()
    if story.target.generated:
        text = excerpt(story.answer.strip(), _LONGEST)
        yield from _named("it wrote", [f"{visible(text)} (probability {story.target.probability:.2g})"], screen)
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
    heads = [_head(head) for head in story.bringing[:_MOST_HEADS]]
    if heads:
        yield from _columns("brought by", heads, screen)
        if unread := _unread(story):
            yield from _named("", [f"none has its largest weight on {unread}"], screen)
    elif story.heads:
        yield from _named("brought by", [_no_head(story, what)], screen)
    if against := _against(story):
        yield from _named("held back by", against, screen)
    if needed or heads or against:
        changed = "the generated tokens" if story.target.generated else what
        noun = "word" if story.cut == "words" else story.cut.removesuffix("s")
        tried = f"tried: the {counted(len(story.words), noun)} that are read most"
        by_head = gives = ""
        if story.heads:
            place = story.heads[0].place
            example = f"{place.layer}.{place.head}: layer {place.layer}, head {place.head}"
            by_head = f", or a head ({example}) set to 0"
            gives = "; gives: its largest weight on a token that is no sink (number and text), and how much"
            by = "that gradients rank highest" if story.estimated else "that read them most"
            tried += f" and the {counted(len(story.heads), 'head')} {by}"
        legend = f"bits: change of log2 p({changed}) with the {noun} masked{by_head}, in {_rows(story)}{gives}; {tried}"
        legend += _untold(story)
        yield Text("\n".join(wrap(legend, screen.width)), DIM)


def _likeliest(likeliest: Sequence[tuple[Token, float]]) -> list[str]:
    """`John 43%`, and the others that have a hundredth or more."""
    kept = [pair for at, pair in enumerate(likeliest) if not at or pair[1] >= _LEAST_PERCENT]
    return [f"{next_word(token)} {_percent(p)}" for token, p in kept]


def _percent(p: float) -> str:
    return f"{p:.0%}" if p >= _LEAST_PERCENT else f"{p:.1%}" if p >= _LEAST_PERCENT / 10 else f"{p:.1e}"


def _effect(name: str, effect: float) -> str:
    return f"{name} {effect:+.2f}"


def _label(word: StoryWord) -> str:
    """`24 river`, or of several tokens `34-35 assistant`: their places, and the word whole."""
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


def _unread(story: Story) -> str:
    """`17 book, 15 and`: the needed words on which no head that brings the answer has its largest weight."""
    read = {head.reads[0].index for head in story.bringing}
    if story.cut != "words":
        return ""
    return listed(_label(x) for x in story.needed[:_MOST_WORDS] if read.isdisjoint(y.index for y in x.tokens))


def _untold(story: Story) -> str:
    """`; changes under 0.1 bits: "5 to", head 20.2; tried, and without room above: head 18.3`."""
    tried: list[StoryWord | StoryHead] = [*story.words, *story.heads]
    is_small = [each for each in tried if abs(each.effect) < LEAST_BITS]
    most = _MOST_WORDS if story.cut == "words" else _MOST_PARTS
    opposing = [word for word in reversed(story.words) if word.effect >= LEAST_BITS]
    beyond: list[StoryWord | StoryHead] = [*story.needed[most:], *opposing[_MOST_AGAINST:]]
    beyond += [*story.bringing[_MOST_HEADS:], *story.opposing[_MOST_AGAINST:]]
    said = ((f"changes under {LEAST_BITS} bits", is_small), ("tried, and without room above", beyond))
    return "".join(f"; {words}: {listed(_quoted(each, story) for each in those)}" for words, those in said if those)


def _quoted(tried: StoryWord | StoryHead, story: Story) -> str:
    """The same, a word between quotation marks."""
    name = _name(tried, story)
    return name if isinstance(tried, StoryHead) or story.cut != "words" else f'"{name}"'


def _name(tried: StoryWord | StoryHead, story: Story) -> str:
    """A head, a word with its place, or a part by its name."""
    if isinstance(tried, StoryHead):
        return f"head {tried.place.layer}.{tried.place.head}"
    return _label(tried) if story.cut == "words" else tried.name


def _against(story: Story) -> list[str]:
    """Words and heads without which the answer is likelier, and by how much, the largest effects first."""
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
    lines = ["   ".join(fit(piece, width) for piece in pieces[at : at + columns]).rstrip()
             for at in range(0, len(pieces), columns)]  # fmt: skip
    if screen.width < _NARROW:
        yield Text(name, BOLD)
        yield from (Text("  " + fit(line, room).rstrip()) for line in lines)
        return
    for number, line in enumerate(lines):
        yield Text().append((name if not number else "").ljust(_MARGIN), BOLD).append(line)
