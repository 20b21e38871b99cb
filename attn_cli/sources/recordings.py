"""A recording as a source: a model that has read its text, without the model."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

from attn_cli.call import Visit
from attn_cli.errors import InputError
from attn_cli.model.blocks import Arrive, Block
from attn_cli.prompt import Prompt
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.selection import PlannedLayer, Selection
from attn_cli.text import excerpt


class RecordedSource:
    """A recording (a run over one text in a file) in place of its model; `name` is that of its file, in messages."""

    batch_size = 1
    unseen: Sequence[Block] = ()  # blocks without attention aren't recorded

    def __init__(self, recording: Recording, name: str) -> None:
        self.recording, self.name = recording, excerpt(name, 200)
        self.about: dict[str, Any] = dict(recording.about)

    def read(self, texts: Sequence[str], pair: str | None = None) -> list[Prompt]:
        """The prompt of the recording for its text or ""; InputError for any other text, and for a `pair`."""
        for text in texts:
            if text not in ("", self.recording.prompt.text):
                hint = f"leave the text out, or give the model: -m {self.about['model']}"
                raise InputError(f"{self.name} holds the text that it was made of, and reads no other", hint)
        if pair is not None:
            raise InputError(f"--pair, and {self.name} has read its text already", "leave out --pair")
        return [self.recording.prompt] * len(texts)

    def repeated(self, seed: int) -> NoReturn:
        """Raise InputError: a recording's model can't read random tokens any more."""
        raise self._missing("random tokens are for the model to read")

    def planned_layers(self, selection: Selection) -> list[PlannedLayer]:
        """The chosen layers, with how many of their heads are chosen; InputError for one that was not recorded."""
        return [PlannedLayer(layer.place.layer, len(heads)) for layer, heads in self._chosen(selection)]

    def each(self, prompts: Sequence[Prompt], selection: Selection, visit: Visit, *, projections: bool = False) -> None:
        """Call `visit` with the attention of the chosen layers, for each prompt."""
        if projections:
            raise self._missing("what heads write takes W_O, which is the model's")
        for text in range(len(prompts)):
            for layer, heads in self._chosen(selection):
                chosen = layer.of_heads(heads)
                visit(replace(chosen, place=replace(chosen.place, text=text)))

    def follow(self, prompt: Prompt, rows: Sequence[int], selection: Selection, visit: Visit, arrive: Arrive) -> None:
        """Raise InputError: a recording has no vectors between blocks."""
        raise self._missing("vectors between blocks are seen while the model runs")

    def _chosen(self, selection: Selection) -> list[tuple[RecordedLayer, list[int]]]:
        layers = self.recording.layers
        selection.check_layers([(layer.place.stream, layer.place.layer) for layer in layers])
        total = max(layer.place.layer for layer in layers) + 1
        chosen = [layer for layer in layers if selection.has_layer(layer.place.layer, total, layer.place.stream)]
        return [(layer, self._heads(layer, selection, total)) for layer in chosen]

    def _heads(self, layer: RecordedLayer, selection: Selection, total: int) -> list[int]:
        numbers = layer.place.heads
        if selection.heads is None and selection.pairs is None:
            return list(range(len(numbers)))
        chosen = selection.pick_heads(max(numbers) + 1, layer.place.layer, total)
        for head in chosen:
            if head not in numbers:
                hint = f"{self.name} has heads {', '.join(map(str, numbers))}"
                raise InputError(f"head {head} of layer {layer.place.layer} was not recorded", hint)
        return [numbers.index(head) for head in chosen]

    def _missing(self, why: str) -> InputError:
        return InputError(f"{self.name} is a recording: {why}", f"give the model: -m {self.about['model']}")
