"""The words of audio with start and end, and where in the audio they lie."""

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from attn_cli.summaries.answers.word_times import SpokenWord, WordTimes
from attn_cli.summaries.report import Report
from attn_cli.text import counted, visible
from attn_cli.views.drawing.cells import fit, packed, packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input

_WORD = 20  # columns of a word at most
_LINE = 40  # columns of the whole audio at most
_NAMED = 12  # heads of a heading
_BY = {"generation_config": "named by generation_config", "named": "chosen", "found": "found to follow the audio"}


def draw(times: WordTimes, report: Report, screen: Screen) -> Iterator[Text | str]:
    """Lines: the heads whose cross-attention tells times, each word with its start and end in seconds, captions."""
    names = [f"{head.place.layer}.{head.place.head}" for head in times.heads]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    noun = "head" if len(names) == 1 else "heads"
    yield ""
    yield packed_text(
        [f"{counted(len(times.words), 'word')} · seconds",
         f"cross-attention of {noun} {' '.join(names[:_NAMED])}{more}", _BY[times.chosen_by]], screen, BOLD,
    )  # fmt: skip
    width = min(_WORD, max((cell_len(visible(word.text)) for word in times.words), default=0))
    room = min(_LINE, screen.width - width - 22)
    length = times.frames * times.frame_seconds
    for word in times.words:
        line = f"  {word.start:7.2f} {word.end:7.2f}  {fit(visible(word.text), width)}"
        yield Text(f"{line}  {_bar(word, length, room)}".rstrip() if room >= 8 else line.rstrip())
    captions = [
        "start: where the row that predicts the word's first token begins",
        "end: where the row of its last token begins",
        "rows begin where dynamic time warping enters them, along weights standardised over rows, "
        f"by the median of {times.filter_width} frames, averaged over heads",
    ]
    yield Text("\n".join(packed(captions, screen.width)), DIM)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the weights of the head that follows the audio best; None for piped input."""
    assert isinstance(report.answer, WordTimes)
    best = max(report.answer.heads, key=lambda head: head.motion.correlation).place
    return on_same_input("matrix", report, invocation, "-H", f"{best.layer}.{best.head}")


def _bar(word: SpokenWord, length: float, room: int) -> str:
    """The place of a word in the audio, of which `room` columns stand for `length` seconds."""
    first = min(room - 1, int(word.start / length * room))
    return " " * first + "█" * max(1, round(word.end / length * room) - first)
