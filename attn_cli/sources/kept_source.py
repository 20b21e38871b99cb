"""A run that is kept as a source: what the model left behind of the same text, asked the same way."""

from collections.abc import Sequence

from attn_cli.prompt import Prompt
from attn_cli.recording import Recording
from attn_cli.sources.recordings import RecordedSource


class KeptSource(RecordedSource):
    """A run that was kept on disk, in place of its model: it answers questions about the one text that was run.

    when  the time of the run, in words: "14:02"
    """

    def __init__(self, recording: Recording, when: str) -> None:
        super().__init__(recording, f"the run of {when}")
        self.about["kept"] = when

    def read(self, texts: Sequence[str], pair: str | None = None) -> list[Prompt]:
        """The prompt of the kept run, whatever is given: its text and pair are known to be these."""
        return [self.recording.prompt]
