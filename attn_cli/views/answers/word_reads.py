"""The words that each word takes its meaning from: a sentence, then a line a word with the words that it reads most."""

from collections.abc import Iterator

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
_FEW_WORDS = 3  # of fewer nothing is said of which is read most by all others


def draw(reads: Reads, screen: Screen) -> Iterator[Text]:
    """The word that singles out another; then all words of a short text, of a longer one those that take most."""
    taking = strongest(reads)
    yield Text()
    yield Text("\n".join(packed([_sentence(reads)], screen.width)), BOLD)
    if not taking:
        return
    several = len(reads.words) > _MOST_WORDS
    told = taking[:_MOST_WORDS] if several else sorted(taking, key=lambda word: word.word.index)
    width = max(cell_len(fit(_label(word.word, reads), _NAME).rstrip()) for word in told)
    yield from (_line(word, width, reads, screen) for word in told)
    if rest := len(taking) - len(told):
        yield Text(f"  and {rest} {_noun(reads, rest)} that take less of a single one", DIM)
    yield packed_text(_captions(reads), screen, DIM)


def strongest(reads: Reads) -> list[WordReads]:
    """The words that read enough of another to be told, those that read most of one first."""
    found = [word for word in reads.words if word.sources and word.sources[0][1] >= _LEAST]
    return sorted(found, key=lambda word: -word.sources[0][1])


def clearest(reads: Reads) -> list[WordReads]:
    """The words that read enough of another to be told, first that whose strongest is farthest above its second."""
    return sorted(strongest(reads), key=lambda word: -(word.sources[0][1] - _second(word)))


def _second(word: WordReads) -> float:
    """The share of the word that is read most but one."""
    return word.sources[1][1] if len(word.sources) > 1 else 0.0


def _sentence(reads: Reads) -> str:
    """`of other words, "bank" reads "river" most clearly (0.28 of all that it reads, the next word 0.11)`, and which
    word the others read most; or that none reads one.
    """
    taking = clearest(reads)
    if not taking:
        most = max((word.sources[0][1] for word in reads.words if word.sources), default=0.0)
        return f"no {_noun(reads)} reads {_LEAST} of another: the most is {most:.3f}"
    first, *others = taking[:2]
    key, share = first.sources[0]
    said = f"of other {_noun(reads, 2)}, {_quoted(first.word, reads)} reads {_quoted(key, reads)} most clearly"
    said += f" ({share:.2f} of all that it reads, the next {_noun(reads)} {_second(first):.2f})"
    for word in others:
        key, share = word.sources[0]
        said += f", {_quoted(word.word, reads)} reads {_quoted(key, reads)} ({share:.2f}, next {_second(word):.2f})"
    if reads.most_read is not None and len(reads.words) >= _FEW_WORDS:
        key, share = reads.most_read
        said += f"; the others read {_quoted(key, reads)} most (mean {share:.2f})"
    return said


def _noun(reads: Reads, count: int = 1) -> str:
    """What reads and is read: words, sentences, or patches of an image."""
    is_image = any(x.word.row is not None for x in reads.words)
    noun = "sentence" if reads.by_sentence else "patch" if is_image else "word"
    return noun if count == 1 else f"{noun}es" if is_image else f"{noun}s"


def _name(word: Token, reads: Reads) -> str:
    """A word itself, a sentence by its number."""
    if not reads.by_sentence or word.special:
        return visible(word.text).strip()
    return f"sentence {1 + sum(each.word.index < word.index for each in reads.words)}"


def _quoted(word: Token, reads: Reads) -> str:
    """A word in quotation marks, for a sentence in which it could pass for one of the sentence's own; a patch as is."""
    name = _name(word, reads)
    return name if reads.by_sentence or word.special or word.row is not None else f'"{name}"'


def _label(word: Token, reads: Reads) -> str:
    return _name(word, reads) if reads.by_sentence else token_label(word)


def _line(word: WordReads, width: int, reads: Reads, screen: Screen) -> Text:
    """`  6 bank   itself 0.13  5 river 0.28  2 sat 0.11`; of a sentence its beginning, too."""
    line = Text(f"  {fit(_label(word.word, reads), width)}  itself {word.own:.2f} ")
    for key, share in word.sources:
        piece = f" {fit(_label(key, reads), _NAME).rstrip()} {share:.2f} "
        if share < _LEAST or cell_len(line.plain) + cell_len(piece) > screen.width:
            break
        line.append(piece)
    if reads.by_sentence and (room := screen.width - cell_len(line.plain) - 1) > 0:
        line.append(" ").append(fit(" ".join(visible(word.word.text).split()), room).rstrip(), DIM)
    return line


def _captions(reads: Reads) -> list[str]:
    """What the numbers are, and the sinks that are left out."""
    captions = [f"share of what a {_noun(reads)} reads: weight times value norm, all heads of a layer together",
                "matrices: weight alone"]  # fmt: skip
    if reads.layers > 1:
        captions.append(f"mean of {counted(reads.layers, 'layer')}")
    sinks = ", ".join(f"{_name(token, reads)} {share:.2f}" for token, share in reads.sinks)
    return [*captions, *([f"left out: {sinks}"] if sinks else [])]
