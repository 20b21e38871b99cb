"""Documents before a question: their texts in a row, and parts named by file and line."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attn_cli.cli.kit.run.texts import Texts
from attn_cli.prompt import Prompt
from attn_cli.summaries.parts.text_parts import TextPart

_BETWEEN = "\n\n"


@dataclass(frozen=True)
class Documents:
    """Files that are read before each text, with a blank line after each.

    names     of the files, without their folders
    contents  their texts
    """

    names: tuple[str, ...] = ()
    contents: tuple[str, ...] = ()

    def before(self, text: str) -> str:
        """The documents and then the text, blank lines between them; the text alone without documents."""
        return _BETWEEN.join([*self.contents, text]) if self.contents else text

    def named(self, parts: Sequence[TextPart], prompt: Prompt) -> tuple[TextPart, ...]:
        """The parts that a prompt is cut into, those of a document named by its file and first line: notes.txt:12."""
        if not self.contents:
            return tuple(parts)
        starts, at = [], 0
        for content in self.contents:
            found = prompt.text.find(content.strip(), at)
            starts.append(found)
            at = found + len(content.strip())
        return tuple(self._named(part, prompt.text, starts, at) for part in parts)

    def _named(self, part: TextPart, text: str, starts: Sequence[int], end: int) -> TextPart:
        if part.kind != "given" or part.start is None or not starts[0] <= part.start < end:
            return part
        document = bisect_right(starts, part.start) - 1
        line = text.count("\n", starts[document], part.start) + 1
        return replace(part, name=f"{self.names[document]}:{line}")


def read_documents(files: Sequence[str]) -> Documents:
    """The documents of these files; InputError for one that can't be read as text."""
    contents = [next(Texts(None, file, lines=False)) for file in files]
    # never an error: without `lines` those are raised
    return Documents(tuple(Path(file).name for file in files), tuple(str(content) for content in contents))
