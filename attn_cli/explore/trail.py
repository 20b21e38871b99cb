"""The viewpoints that somebody came by, to go back to: out of a pane, or to what was seen before a key."""

from dataclasses import dataclass, field

from attn_cli.explore.viewpoint import Viewpoint

_KEPT = 200  # viewpoints


@dataclass
class Trail:
    """The viewpoints (what was shown, and the cursor) to go back to.

    entered  pairs: a viewpoint that Enter left, and the one that it reached
    seen     those that any key left, the latest last; of moves that follow one another the first alone
    """

    entered: list[tuple[Viewpoint, Viewpoint]] = field(default_factory=list)
    seen: list[Viewpoint] = field(default_factory=list)
    _moved: bool = False

    def leave(self, before: Viewpoint, *, moves: bool) -> None:
        """Remember a viewpoint that a key has left; of several moves by a step in a row (`moves`) the first.

        The last 200 are kept.
        """
        if not (moves and self._moved):
            self.seen = [*self.seen[1 - _KEPT :], before]
        self._moved = moves

    def back(self) -> Viewpoint | None:
        """The last viewpoint that was left, which is then forgotten; None if there is none."""
        self._moved = False
        return self.seen.pop() if self.seen else None

    def clear(self) -> None:
        """Forget all viewpoints, when another recording is opened."""
        self.entered.clear()
        self.seen.clear()
        self._moved = False
