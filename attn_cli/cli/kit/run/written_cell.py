"""Who wrote the query and the key of one cell of a recording, in lines: for the explorer and the interactive page."""

from attn_cli.model.source import Source
from attn_cli.recording import Recording
from attn_cli.selection import Selection
from attn_cli.summaries.answers.writers import KeyPicks, writers_of
from attn_cli.views.answers.writers import cell_lines
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.view import RecordedCell


def written_lines(source: Source, recording: Recording, cell: RecordedCell, width: int) -> list[str]:
    """What wrote the query and key of a recorded weight (heads, MLPs, the embedding), as lines of `width` columns.

    The model is run again. InputError for a source that is no model.
    """
    place = recording.layers[cell.at].place
    selection = Selection(pairs=((place.layer, place.heads[cell.head]),))
    picks = KeyPicks(1, lambda _: [cell.key])
    found = writers_of(source, recording.prompt, selection, lambda _: [cell.query], picks)
    cells = [each for each in found.cells if each.place.stream == place.stream]
    return [text.plain for each in cells[:1] for text in cell_lines(each, Screen(width, "none"))]
