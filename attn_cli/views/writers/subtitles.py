"""srt and vtt: the words of audio as lines that a player shows while they are spoken."""

from collections.abc import Iterator, Sequence
from unicodedata import east_asian_width

from attn_cli.errors import InputError
from attn_cli.summaries.answers.word_times import SpokenWord, WordTimes
from attn_cli.summaries.report import Report
from attn_cli.text import visible
from attn_cli.views.view import View

_LETTERS = 42  # of a line at most, as subtitles have it
_SECONDS = 6.0  # of a line at most
_PAUSE = 0.8  # seconds without a word, after which a new line begins
_ENDS = ".?!。？！"
_SHORTEST = 0.02  # seconds: players leave out what ends where it begins


class SubtitlesView(View):
    """Writes the words of one audio with their times as subtitles, WebVTT (vtt) or SubRip (srt), by its format's name.

    InputError for an answer other than such words, and for a second one.
    """

    def show(self, report: Report) -> None:
        """Write all lines of subtitles with their times; InputError for an answer without, and for a second one."""
        if not isinstance(report.answer, WordTimes):
            raise InputError(f"{self.format} holds words with their times", "it goes with attn top --times")
        self.take_one(f"{self.format} holds one audio", "write a file for each")
        self.sink.write(subtitles(report.answer.words, vtt=self.format == "vtt").encode("utf-8", "backslashreplace"))


def subtitles(words: Sequence[SpokenWord], *, vtt: bool) -> str:
    """Words as subtitles with the times, from seconds, at which they begin and end: SubRip, or WebVTT with `vtt`.

    Words join a line of at most 42 characters and 6 seconds; it ends after . ? or !, and before a pause of 0.8 seconds.

    >>> from attn_cli.prompt import Token
    >>> words = [SpokenWord(Token(1, ""), "he", 0, 0.5), SpokenWord(Token(2, ""), "sat", 0.5, 1.25)]
    >>> print(subtitles(words, vtt=False))
    1
    00:00:00,000 --> 00:00:01,250
    he sat
    <BLANKLINE>
    """
    point = "." if vtt else ","
    cues = []
    for number, line in enumerate(_lines(words), 1):
        start, end = line[0].start, max(line[-1].end, line[0].start + _SHORTEST)
        text = visible(_joined(line))
        if vtt:
            text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        cues.append(f"{number}\n{_clock(start, point)} --> {_clock(end, point)}\n{text}\n")
    return ("WEBVTT\n\n" if vtt else "") + "\n".join(cues)


def _lines(words: Sequence[SpokenWord]) -> Iterator[list[SpokenWord]]:
    """The words in lines: a sentence, or as much as fits, up to a pause."""
    line: list[SpokenWord] = []
    for word in words:
        if line and (
            len(_joined([*line, word])) > _LETTERS
            or word.end - line[0].start > _SECONDS
            or word.start - line[-1].end >= _PAUSE
            or line[-1].text.endswith(tuple(_ENDS))
        ):
            yield line
            line = []
        line.append(word)
    if line:
        yield line


def _joined(words: Sequence[SpokenWord]) -> str:
    """The words with blanks between them, but for those of scripts that write none: Chinese and Japanese."""
    text = ""
    for word in words:
        glued = not text or not word.text or (_is_wide(text[-1]) and _is_wide(word.text[0]))
        text += word.text if glued else f" {word.text}"
    return text


def _is_wide(letter: str) -> bool:
    return east_asian_width(letter) in "WF"


def _clock(seconds: float, point: str) -> str:
    """Hours, minutes, seconds and thousandths.

    >>> _clock(3723.0456, ",")
    '01:02:03,046'
    """
    whole = round(seconds * 1000)
    hours, rest = divmod(whole, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{point}{rest % 1000:03}"
