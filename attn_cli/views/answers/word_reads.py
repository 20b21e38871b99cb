"""The words that each word takes its meaning from: a sentence, then a line a word with the words that it reads most."""

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from attn_cli.prompt import Token
from attn_cli.summaries.told.word_reads import Reads, ReadUnit, WordReads
from attn_cli.text import counted, visible
from attn_cli.views.drawing.cells import fit, packed, packed_text
from attn_cli.views.drawing.labels import token_label
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM

_LEAST = 0.05  # of what a word reads that is told
_MOST_WORDS = 8
_NAMED, _FEW = 2, 4  # in the sentence, and words of a text that are all in it
_NAME = 16  # columns of a word at most
_SPECIAL = 3  # tokens that are told beside what a vector reads
_SENTENCE = 20  # columns of its text, behind what it reads
_WIDE = 60  # columns from which a name stands before what is read


def draw(reads: Reads, screen: Screen, *, of_table: bool = False) -> Iterator[Text]:
    """A sentence on the word that gives most to one other word, then the words that each word reads."""
    taking = strongest(reads)
    yield Text()
    yield Text("\n".join(packed([_sentence(reads)], screen.width)), BOLD)
    if not taking:
        return
    several = len(reads.words) > _MOST_WORDS
    named = _named(reads)
    told = [*named, *(word for word in taking if word not in named)][:_MOST_WORDS] if several else taking
    told = sorted(told, key=lambda word: word.word.index)
    width = max(cell_len(fit(_label(word.word, reads), _NAME).rstrip()) for word in told)
    yield from (_line(word, width, reads, screen) for word in told)
    if rest := len(taking) - len(told):
        yield Text(f"  and {rest} more {_noun(reads, rest)}, that read {_LEAST} or more of another", DIM)
    yield from _vectors(reads, screen)
    yield packed_text(_captions(reads, of_table=of_table), screen, DIM)


def strongest(reads: Reads) -> list[WordReads]:
    """The words that read 0.05 or more of one other word, the largest share first."""
    found = [word for word in reads.words if word.sources and word.sources[0].share >= _LEAST]
    return sorted(found, key=lambda word: -word.sources[0].share)


def clearest(reads: Reads) -> list[WordReads]:
    """The words that read 0.05 or more of another word, first that whose largest share is farthest ahead of its
    second.
    """
    return sorted(strongest(reads), key=lambda word: -_lead(word))


def _named(reads: Reads) -> list[WordReads]:
    found = clearest(reads)
    return found if len(reads.words) <= _FEW else found[:_NAMED]


def _lead(word: WordReads) -> float:
    return word.sources[0].share - (word.sources[1].share if len(word.sources) > 1 else 0.0)


def _sentence(reads: Reads) -> str:
    """`of other words, "bank" reads "river" most clearly: 0.28 of all that it reads (mean weight 0.11), 0.17
    more than "sat"`, and which word is read most of all; or that none reads one.
    """
    taking = _named(reads)
    if not taking:
        most = max((word.sources[0].share for word in reads.words if word.sources), default=0.0)
        return f"no {_noun(reads)} reads {_LEAST} of another: the most is {most:.3f}"
    first, *others = taking
    said = f"of other {_noun(reads, 2)}, {_quoted(first.word, reads)} reads "
    said += f"{_quoted(first.sources[0].word, reads)} most clearly: {first.sources[0].share:.2f} of all that it reads "
    said += f"(mean weight {first.sources[0].weight:.2f})" + _ahead(first, reads)
    for word in others:
        key = word.sources[0]
        said += f"; {_quoted(word.word, reads)} reads {_quoted(key.word, reads)} {key.share:.2f}" + _ahead(word, reads)
    read = reads.most_read
    told = {word.word.index for word in taking}
    if read is not None and any(word.word.index not in told | {read.word.index} for word in reads.words):
        said += f"; of all {_noun(reads, 2)} {_quoted(read.word, reads)} is read most (mean {read.share:.2f})"
    return said


def _ahead(word: WordReads, reads: Reads) -> str:
    return f", {_lead(word):.2f} more than {_quoted(word.sources[1].word, reads)}" if len(word.sources) > 1 else ""


def _noun(reads: Reads, count: int = 1) -> str:
    is_image = any(x.word.row is not None for x in reads.words)
    noun = "sentence" if reads.by_sentence else "patch" if is_image else "word"
    return noun if count == 1 else f"{noun}es" if is_image else f"{noun}s"


def _name(word: Token, reads: Reads) -> str:
    if not reads.by_sentence or word.special:
        return visible(word.text).strip()
    return f"sentence {1 + sum(each.word.index < word.index for each in reads.words)}"


def _quoted(word: Token, reads: Reads) -> str:
    name = _name(word, reads)
    if reads.by_sentence or word.special or word.row is not None:
        return name
    return f'"{name}"' if sum(_name(each.word, reads) == name for each in reads.words) < 2 else token_label(word)


def _label(word: Token, reads: Reads) -> str:
    return _name(word, reads) if reads.by_sentence else token_label(word)


def _line(word: WordReads, width: int, reads: Reads, screen: Screen) -> Text:
    """`  6 bank   itself 0.13/0.09  5 river 0.28/0.11`; of a sentence its beginning, too. Narrow without itself."""
    line = Text(f"  {fit(_label(word.word, reads), width)} ")
    line.append(f" itself {_numbers(word.own)} " if screen.width >= _WIDE else "")
    room = screen.width - (_SENTENCE if reads.by_sentence else 0)
    for source in word.sources:
        piece = f" {_read(source, reads)} "
        if source.share < _LEAST or cell_len(line.plain) + cell_len(piece) > room:
            break
        line.append(piece)
    if reads.by_sentence and (room := screen.width - cell_len(line.plain) - 1) > 0:
        line.append(" ").append(fit(" ".join(visible(word.word.text).split()), room).rstrip(), DIM)
    return line


def _numbers(read: ReadUnit) -> str:
    return f"{read.share:.2f}/{read.weight:.2f}"


def _read(read: ReadUnit, reads: Reads) -> str:
    return f"{fit(_label(read.word, reads), _NAME).rstrip()} {_numbers(read)}"


def _vectors(reads: Reads, screen: Screen) -> Iterator[Text]:
    """`vector of the text, as mean of all rows  5 river 0.14/0.05`, and as the row of [CLS]: what each reads."""
    if reads.vectors:
        noun = "image" if _noun(reads) == "patch" else "text"
        yield Text(f"what a vector of the whole {noun} reads", BOLD)
    names = [
        "the mean of all rows" if each.of is None else f"the row of {visible(each.of.text)}" for each in reads.vectors
    ]
    width = max(map(len, names), default=0)
    for name, vector in zip(names, reads.vectors, strict=True):
        lead = f"  {name:{width}}  " if screen.width >= _WIDE else f"  {name}\n    "
        marks = [f"{visible(mark.word.text)} {_numbers(mark)}" for mark in vector.marks[:_SPECIAL]]
        pieces = [_read(source, reads) for source in vector.sources] + marks
        indent = len(lead.rpartition("\n")[2])
        lines = packed(pieces, screen.width - indent, "  ")
        yield Text(lead + ("\n" + " " * indent).join(lines))


def _captions(reads: Reads, *, of_table: bool) -> list[str]:
    """What the numbers are, and the sinks that are left out."""
    over = f", mean of {counted(reads.layers, 'layer')}" if reads.layers > 1 else ""
    share = f"share of what it reads, weight times value norm, the heads of a layer together{over}"
    sliced = ", each a slice of the word vectors" if of_table and reads.heads > 1 else ""
    captions = [f"share/weight: {share} / mean weight of {counted(reads.heads, 'head')}{sliced}"]
    sinks = ", ".join(f"{_name(each.word, reads)} {_numbers(each)}" for each in reads.sinks)
    if sinks:
        captions.append(f"special tokens and sinks, left out above: {sinks} in the mean of all {_noun(reads, 2)}")
    return captions
