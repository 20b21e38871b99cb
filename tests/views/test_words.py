"""An overview in words: words in place of tokens, with a header on how numbers were merged."""

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Place
from attn_cli.kernel.definition.mask import causal
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Prompt, Token, Word
from attn_cli.summaries.calls.in_words import InWords, prompt_in_words
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.heads import HeadStatistics
from attn_cli.summaries.reducers.keys import ReceivedShares
from attn_cli.summaries.reducers.matrix import MatrixOf
from attn_cli.summaries.report import Report
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.screens import render
from tests.views.test_golden import GoldenScreen

WORDS = (["un", "believ", "ably"], [","], ["he"], ["sat"], ["un", "believ", "ably"], ["[bold]"], ["🙂", "🙂"])
TEXT = "unbelievably, he sat unbelievably [bold] 🙂"


def prompt() -> Prompt:
    """<s> and TEXT, in pieces."""
    tokens = [Token(0, "<s>", 1, special=True)]
    end = 0
    for pieces in WORDS:
        whole = "🙂" if pieces[0] == "🙂" else "".join(pieces)
        start = TEXT.index(whole, end)
        end, word = start + len(whole), Word(whole)
        tokens += [Token(len(tokens) + at, piece, 9, start, end, word=word) for at, piece in enumerate(pieces)]
    return Prompt(TEXT, tuple(tokens))


def test_an_overview_in_words(golden_screen: GoldenScreen) -> None:
    pieces = prompt()
    q, k, v = np.random.default_rng(4).normal(size=(3, 2, len(pieces.tokens), 4)) * 2
    call = AttentionCall(
        q, k, v, Rule(0.5, mask=causal()), Place(0, "it", (0, 1), (0, 1)), pieces.tokens, pieces.tokens
    )
    summary = reduce(InWords(call), HeadStatistics(), ReceivedShares(), MatrixOf((40, 30), mean_heads=True))
    about = {"model": "a-model", "type": "llama", "dtype": "float32", "device": "cpu"}
    report = Report("inspect", about, (prompt_in_words(pieces),), (summary,), merged_from=len(pieces.tokens))
    golden_screen("words", lambda width: render(report, Screen(width, "none")))
