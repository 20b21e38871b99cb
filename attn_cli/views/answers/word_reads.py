"""The words that each word takes its meaning from: a sentence, then a line a word with the words that it reads most."""

from collections.abc import Iterator
from textwrap import wrap

from rich.cells import cell_len
from rich.text import Text

from attn_cli.summaries.told.word_reads import Reads, ReadUnit, WordReads
from attn_cli.text import quoted, visible
from attn_cli.views.drawing.cells import fit, packed
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM

_LEAST = 0.05  # of what a word reads that is told
_MOST_WORDS, _MOST_KEYS = 8, 4
_NAME = 16  # columns of a word at most
_SENTENCE = 20  # columns of its text, behind what it reads


def draw(reads: Reads, screen: Screen) -> Iterator[Text]:
    """A sentence on the word that gives most to one other word, then the words that each word reads."""
    taking = strongest(reads)
    yield Text()
    if not taking:
        most = max((word.sources[0].share for word in reads.words if word.sources), default=0.0)
        yield Text(f"no {_noun(reads)} reads {_LEAST} of another: the most is {most:.3f}", BOLD)
        return
    first = clearest(reads)[0]
    after = f" (next: {_quoted(first.sources[1], reads)} {first.sources[1].share:.2f})" if first.sources[1:] else ""
    link = f"{_quoted(first, reads)} reads {_quoted(first.sources[0], reads)} {first.sources[0].share:.2f}"
    yield Text("\n".join(packed([f"strongest link: {link}{after}"], screen.width)), BOLD)
    told = taking[:_MOST_WORDS]
    width = max(cell_len(_label(word, reads)) for word in told)
    for at, word in enumerate(told):
        line = Text(f"  {fit(_label(word, reads), width)}  {'' if at else 'reads':5}")
        room = screen.width - (_SENTENCE if reads.by_sentence else 0)
        for source in word.sources[:_MOST_KEYS]:
            piece = f"  {_quoted(source, reads)} {source.share:.2f}"
            if source.share < _LEAST or line.cell_len + cell_len(piece) > room:
                break
            line.append(piece)
        if reads.by_sentence and (room := screen.width - line.cell_len - 2) > 0:
            line.append("  ").append(fit(" ".join(visible(word.word.text).split()), room), DIM)
        line.rstrip()
        yield line


def legend(screen: Screen) -> Iterator[Text]:
    """What the shares are."""
    said = "reads: share of a word's output by weight x value length, over heads and layers"
    yield from (Text(line, DIM) for line in wrap(said, screen.width))


def strongest(reads: Reads) -> list[WordReads]:
    """The words that read 0.05 or more of one other word, the largest share first."""
    found = [word for word in reads.words if word.sources and word.sources[0].share >= _LEAST]
    return sorted(found, key=lambda word: -word.sources[0].share)


def clearest(reads: Reads) -> list[WordReads]:
    """The words that read 0.05 or more of another word, first that whose largest share is farthest ahead of its
    second.
    """
    return sorted(strongest(reads), key=lambda word: -_lead(word))


def _lead(word: WordReads) -> float:
    return word.sources[0].share - (word.sources[1].share if len(word.sources) > 1 else 0.0)


def _noun(reads: Reads) -> str:
    is_image = any(x.word.row is not None for x in reads.words)
    return "sentence" if reads.by_sentence else "patch" if is_image else "word"


def _quoted(of: WordReads | ReadUnit, reads: Reads) -> str:
    """A word in quotes, or the number of a sentence; with its place where the word stands more than once."""
    word = of.word
    if reads.by_sentence and not word.special:
        return f"sentence {1 + sum(other.word.index < word.index for other in reads.words)}"
    if word.special or word.row is not None:
        return visible(word.text)
    several = sum(other.word.text.strip() == word.text.strip() for other in reads.words) > 1
    return fit(quoted(word.text), _NAME).rstrip() + (f" {word.index}" if several else "")


def _label(of: WordReads, reads: Reads) -> str:
    if reads.by_sentence or of.word.row is not None:
        return _quoted(of, reads)
    return f"{fit(quoted(of.word.text), _NAME).rstrip()} {of.word.index}"
