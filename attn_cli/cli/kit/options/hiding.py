"""--hide: which keys and rows of a call are left out, and what is said of them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from attn_cli.call import Call
from attn_cli.cli.kit.shell.signature import option
from attn_cli.errors import InputError
from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.sinks import expected_sinks, special_places
from attn_cli.text import counted, cut, listed, visible
from attn_cli.token_syntax import picked_tokens, rows_of_stream

SINK = "sink"  # the value of --hide that means the keys at which sinks are to be expected
SPECIAL = "special"
_NAMED = (SINK, SPECIAL)
_FEW = 3  # more hidden keys than this are counted, and not named
_WIDEST = 28  # letters of the names of hidden keys, with which the line said of them fits 80 columns


@dataclass(frozen=True, repr=False, eq=False)
class HidingOptions:
    """Options for the keys and query rows that are left out of what is shown."""

    hide: list[str] | None = option(
        "--hide PICK",
        "Hide keys: sink (first key or special tokens), special (also as queries) or as --token takes (repeatable).",
    )

    def refuse(self, reason: str) -> None:
        """Raise InputError if --hide was given; its message begins with `reason`."""
        if self.hide:
            raise InputError(f"{reason}: nothing can be hidden", "leave out --hide")

    def keys(self, call: Call, text: str) -> list[int]:
        """The indices of the keys of a layer's attention `call` that the options leave out, ascending; [] for none."""
        keys: set[int] = set()
        for pick in self.hide or ():
            if pick in _NAMED:
                keys |= set((expected_sinks(call) if pick == SINK else special_places(call.keys)).tolist())
            else:
                keys |= set(rows_of_stream(pick, call.keys, text) or ())
        return sorted(keys)

    def rows(self, rows: Sequence[int] | None, queries: Sequence[Token]) -> Sequence[int] | None:
        """The query rows that are shown: `rows` (None for all) without special tokens, if these are hidden."""
        special = set(special_places(queries).tolist()) if SPECIAL in (self.hide or ()) else set()
        if not special:
            return rows
        return [row for row in (range(len(queries)) if rows is None else rows) if row not in special]

    def check(self, prompt: Prompt, rows: Sequence[int] | None) -> None:
        """Raise InputError for a --hide pick that names no token, or where no query would be left to show."""
        streams = [tokens for tokens in (prompt.tokens, *prompt.others.values()) if tokens]
        for pick in self.hide or () if streams else ():
            if pick not in _NAMED and not any(rows_of_stream(pick, tokens, prompt.text) for tokens in streams):
                picked_tokens(pick, prompt.tokens, prompt.text)  # raises, with the tokens that there are
        if self.rows(None, prompt.tokens) == []:
            raise InputError("the text has special tokens alone", "leave out --hide special")
        if rows and self.rows(rows, prompt.tokens) == []:
            raise InputError("--token picks special tokens, which --hide special hides", "leave out one of them")

    def notes(self, hidden: Collection[Token], count: Sequence[tuple[int, float]]) -> tuple[str, ...]:
        """Notes for the user: which keys are hidden, and their share of all weight."""
        if hidden:
            share = sum(weight for _, weight in count) / max(sum(rows for rows, _ in count), 1)  # of a row, on average
            return (f"{self._names(hidden)} left out here, not in the model: {share:.0%} of the weight",)
        if self.hide and SINK in self.hide:
            return ("--hide sink hides nothing: no causal mask or special token, so no sink",)
        return ()

    def _names(self, hidden: Collection[Token]) -> str:
        if self.hide == [SPECIAL]:
            return counted(len(hidden), "special token")
        names = listed(dict.fromkeys(f"{token.index} {visible(token.text)}" for token in hidden), _FEW)
        return cut(names, _WIDEST) if len(hidden) == 1 or len(names) <= _WIDEST else counted(len(hidden), "key")


NOTHING_HIDDEN = HidingOptions()
