"""What each word takes its meaning from: a sentence, then a line a word with the words that it reads most."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from attn_cli.prompt import Token
from attn_cli.summaries.told.word_reads import Reads, WordReads
from attn_cli.text import counted, visible
from attn_cli.views.drawing.cells import fit, packed, packed_text
from attn_cli.views.drawing.labels import token_label
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM

_LEAST = 0.05  # of what a word reads that is told
_MOST_WORDS = 8
_NAME = 16  # columns of a word at most


def draw(reads: Reads, screen: Screen) -> Iterator[Text]:
    """The word that takes most from another; then all words of a short text, of a longer one those that take most."""
    yield Text()
    found = [word for word in reads.words if word.sources and word.sources[0][1] >= _LEAST]
    strongest = sorted(found, key=lambda word: -word.sources[0][1])
    yield Text("\n".join(packed([_sentence(reads, strongest)], screen.width)), BOLD)
    if not found:
        return
    several = len(reads.words) > _MOST_WORDS
    told = strongest[:_MOST_WORDS] if several else found
    width = max(cell_len(fit(token_label(word.word), _NAME).rstrip()) for word in told)
    yield from (_line(word, width, screen) for word in told)
    if several and len(found) > len(told):
        yield Text(f"  and {counted(len(found) - len(told), 'word')} that take less", DIM)
    yield packed_text(_captions(reads), screen, DIM)


def _sentence(reads: Reads, strongest: Sequence[WordReads]) -> str:
    """`bank takes most from another word: 0.31 of what it reads is river`, or that no word does."""
    if not strongest:
        most = max((word.sources[0][1] for word in reads.words if word.sources), default=0.0)
        return f"no word takes {_LEAST} of its meaning from another: the most is {most:.3f}"
    first = strongest[0]
    sentence = f"{_name(first.word)} takes {first.sources[0][1]:.2f} of what it reads from {_name(first.sources[0][0])}"
    if len(strongest) > 1:
        second = strongest[1]
        sentence += f", {_name(second.word)} {second.sources[0][1]:.2f} from {_name(second.sources[0][0])}"
    return f"what each word takes its meaning from: {sentence}"


def _name(word: Token) -> str:
    return visible(word.text).strip()


def _line(word: WordReads, width: int, screen: Screen) -> Text:
    """`  6 bank   itself 0.21   5 river 0.31   3 on 0.08`."""
    line = Text(f"  {fit(token_label(word.word), width)}  ")
    line.append(f"itself {word.own:.2f} ")
    for key, share in word.sources:
        piece = f" {fit(token_label(key), _NAME).rstrip()} {share:.2f} "
        if share < _LEAST or cell_len(line.plain) + cell_len(piece) > screen.width:
            break
        line.append(piece)
    return line


def _captions(reads: Reads) -> list[str]:
    """What the numbers are, and the sinks that are left out."""
    captions = ["share of what a word reads: weight times the length of the value, all heads of a layer together",
                f"mean over {counted(reads.layers, 'layer')}" if reads.layers > 1 else "",
                "the word itself is left out"]  # fmt: skip
    sinks = ", ".join(f"{_name(token)} {share:.2f}" for token, share in reads.sinks)
    return [*filter(None, captions), *([f"and sinks: {sinks}"] if sinks else [])]
