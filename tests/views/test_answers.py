"""What is drawn together comes once, above the rest."""

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Place
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.reduce import Reducer, Summary, reduce
from attn_cli.summaries.reducers.heads import HeadStatistics
from attn_cli.summaries.reducers.keys import OverallKeys, ReceivedShares, TopKeys
from attn_cli.summaries.report import Report
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.screens import render


def summary(layer: int, *reducers: Reducer) -> Summary:
    tokens = tuple(Token(i, f"t{i}") for i in range(3))
    x = np.eye(3)[None]
    return reduce(AttentionCall(x, x, x, Rule(1.0), Place(layer, "it", (0,), (0,)), tokens, tokens), *reducers)


def screen_of(*summaries: Summary) -> str:
    source = {"model": "it", "type": "table"}
    return render(Report("inspect", source, (Prompt("", summaries[0].queries),), summaries), Screen(80, "none"))


def test_an_overview_lists_tokens_and_shows_the_parts_of_all_layers_once() -> None:
    text = screen_of(*(summary(layer, HeadStatistics(), ReceivedShares()) for layer in range(2)))
    assert text.count("tokens  0 t0  1 t1") == text.count("  head  bits") == text.count("most attended") == 1
    assert text.index("tokens  0 t0") < text.index("  head  bits")
    assert text.index("  head  bits") < text.index("most attended")


def test_one_kind_of_part_is_no_overview() -> None:
    assert "tokens  0 t0" not in screen_of(summary(0, HeadStatistics()), summary(1, HeadStatistics()))


class CountedToken(Token):
    """A token that counts how often any was hashed."""

    hashed = 0

    def __hash__(self) -> int:
        CountedToken.hashed += 1
        return hash(self.text)


def test_drawing_what_receives_most_takes_no_square_of_the_tokens() -> None:
    n = 300
    tokens = tuple(CountedToken(i, f"t{i}") for i in range(n))
    x = np.random.default_rng(0).normal(size=(1, n, 2))
    call = AttentionCall(x, x, x, Rule(1.0), Place(0, "it", (0,), (0,)), tokens, tokens)
    found = reduce(call, ReceivedShares(), HeadStatistics())
    CountedToken.hashed = 0
    screen_of(found)
    assert CountedToken.hashed < 20 * n


def test_what_stands_in_for_too_many_queries_says_so_once_at_the_end() -> None:
    text = screen_of(*(summary(layer, OverallKeys(2, abridged=True)) for layer in range(2)), summary(2, TopKeys(2)))
    assert text.count("too many queries") == 1
    assert text.rstrip().splitlines()[-1].startswith("too many queries to show each")
    assert "too many queries" not in screen_of(summary(0, OverallKeys(2)))
