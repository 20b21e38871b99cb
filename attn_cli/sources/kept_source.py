"""A run that is kept as a source: what the model left behind of the same text, asked the same way."""

from collections.abc import Sequence

from attn_cli.prompt import Prompt
from attn_cli.recording import Recording
from attn_cli.sources.recordings import RecordedSource


class KeptSource(RecordedSource):
    """The recording of an earlier run in place of its model, for questions about the one text that was run.

    when  the time of the run, in words: "14:02"
    """

    def __init__(self, recording: Recording, when: str) -> None:
        super().__init__(recording, f"the run of {when}")
        self.about["kept"] = when

    def read(self, texts: Sequence[str], pair: str | None = None) -> list[Prompt]:
        """The prompt of the run, of which the text and the pair are known."""
        return [self.recording.prompt]
