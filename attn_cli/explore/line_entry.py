"""A line that is being typed: its text, the place in it, and the lines that were typed before."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

_WORD_BEFORE = re.compile(r"\S+\s*$")


@dataclass
class LineEntry:
    """A line of text that is being typed, after a `prompt` such as `:`.

    history   the lines typed before, the latest last
    complete  a function from a line to its possible completions, whole lines
    place     the cursor: a character of `text`, its length at the end
    """

    prompt: str
    text: str = ""
    history: list[str] = field(default_factory=list)
    complete: Callable[[str], Sequence[str]] = lambda line: ()
    place: int = -1
    _at: int = -1
    _choices: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.place = len(self.text) if self.place < 0 else self.place
        self._at = len(self.history)

    def insert(self, text: str) -> None:
        """Insert text at the cursor, typed or pasted; line breaks are kept but for the last one."""
        text = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
        self._become(self.text[: self.place] + text + self.text[self.place :], self.place + len(text))

    def press(self, key: str) -> None:
        """Edit the line by a key, by Textual's name: left, backspace, ctrl+w, tab ...; other keys do nothing."""
        match key:
            case "left":
                self.place = max(self.place - 1, 0)
            case "right":
                self.place = min(self.place + 1, len(self.text))
            case "home" | "ctrl+a":
                self.place = 0
            case "end" | "ctrl+e":
                self.place = len(self.text)
            case "ctrl+u":
                self._become(self.text[self.place :], 0)
            case "ctrl+k":
                self._become(self.text[: self.place], self.place)
            case "ctrl+w":
                word = _WORD_BEFORE.search(self.text[: self.place])
                start = word.start() if word else self.place
                self._become(self.text[:start] + self.text[self.place :], start)
            case "backspace" if self.place:
                self._become(self.text[: self.place - 1] + self.text[self.place :], self.place - 1)
            case "delete":
                self._become(self.text[: self.place] + self.text[self.place + 1 :], self.place)
            case "up" | "down":
                self._recall(-1 if key == "up" else 1)
            case "tab":
                self._completed()

    @property
    def choices(self) -> Sequence[str]:
        """The completions of this line; while Tab goes through them, those of the line that was typed."""
        return self._choices or self.complete(self.text)

    def remember(self) -> None:
        """Add the line to the history, unless it is empty or the latest there."""
        if self.text and self.text not in self.history[-1:]:
            self.history.append(self.text)

    def _become(self, text: str, place: int) -> None:
        self.text, self.place, self._choices = text, place, ()

    def _recall(self, step: int) -> None:
        self._at = min(max(self._at + step, 0), len(self.history))
        line = self.history[self._at] if self._at < len(self.history) else ""
        self._become(line, len(line))

    def _completed(self) -> None:
        if self.text in self._choices:
            line = self._choices[(list(self._choices).index(self.text) + 1) % len(self._choices)]
            self.text, self.place = line, len(line)
            return
        choices = self.complete(self.text)
        common = _common(choices)
        if len(common) > len(self.text):
            self._become(common, len(common))
        elif choices:
            self._choices = choices
            self.text, self.place = choices[0], len(choices[0])


def _common(lines: Sequence[str]) -> str:
    if not lines:
        return ""
    first, last = min(lines), max(lines)
    same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:same]
