"""Where somebody stands in a recording: the pane, layer, head, query and key, and how they are shown."""

from dataclasses import dataclass, replace

from attn_cli.explore.window import CellForm

PANES = ("heads", "matrix", "text", "cell")  # in the order in which Enter goes deeper
KINDS = "kinds"  # in place of the name of a number: heads are coloured by what they do


@dataclass(frozen=True)
class Viewpoint:
    """What is shown of a recording, and where the cursor is; every key makes another one of it."""

    pane: str = "heads"  # the part of the screen that has the keys
    at: int = 0  # the index of the layer among those of the recording
    head: int = 0
    query: int = 0
    key: int = 0
    form: CellForm | None = None  # how many queries and keys a drawn cell stands for; None to see the whole matrix
    top: int = 0
    left: int = 0
    scale: str = "sqrt"  # how colours follow weights
    scores: bool = False
    by_column: bool = False  # the text shows who attends to a key, not what a query attends to
    hide_sinks: bool = False
    statistic: str = KINDS  # that colours heads

    @property
    def subject(self) -> int:
        """The index of the token whose weights are shown: the query's, or with `by_column` the key's."""
        return self.key if self.by_column else self.query

    @property
    def partner(self) -> int:
        """The index of the token at the other end of a shown weight: the key's, or with `by_column` the query's."""
        return self.query if self.by_column else self.key

    def with_subject(self, place: int) -> "Viewpoint":
        """The viewpoint with another token whose weights are shown: another query, or with `by_column` another key."""
        return replace(self, key=place) if self.by_column else replace(self, query=place)

    def with_partner(self, place: int) -> "Viewpoint":
        """The viewpoint with its cursor on another weight of its token: another key, with `by_column` another query."""
        return replace(self, query=place) if self.by_column else replace(self, key=place)
