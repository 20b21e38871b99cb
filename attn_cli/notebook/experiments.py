"""Kinds of heads, ablated heads, parts of a text: experiments as functions."""

from collections.abc import Sequence
from typing import Any, Unpack

from attn_cli.errors import InputError
from attn_cli.model.source import Predicting
from attn_cli.notebook.models import Choosing, Model, opened, selected
from attn_cli.prompt import Prompt
from attn_cli.sources import DEFAULT_MODEL
from attn_cli.summaries.answer import Answer
from attn_cli.summaries.answers import kinds as of_kinds
from attn_cli.summaries.answers import knock as of_knock
from attn_cli.summaries.parts import answer as of_parts
from attn_cli.summaries.parts.text_parts import CUTS, TextPart, parts_of


def head_kinds(
    text: str | None = None,
    model: Model = DEFAULT_MODEL,
    tokenizer: Any = None,
    *,
    seed: int = 0,
    **how: Unpack[Choosing],
) -> Answer:
    """The kind of every head of a model (induction, previous token ...), as `attn heads --kinds`.

    text    the text to judge on, by the share of what heads don't give to sinks; None for random tokens written twice
    model   as for `inspect`; without a text it may come first: `head_kinds(model="gpt2")`, `head_kinds(source)`
    seed    of the random tokens, and of the random keys whose weight is the control for induction and duplicate

    Raises AttnError for a model that can't be loaded, and a layer or head that isn't there.
    """
    if not isinstance(text, str | Prompt | None) and isinstance(model, str) and model == DEFAULT_MODEL:
        text, model = None, text
    return of_kinds.head_kinds(opened(text, model, tokenizer, how), text, seed=seed, selection=selected(how))


def knock(
    text: str | Prompt,
    model: Model = DEFAULT_MODEL,
    tokenizer: Any = None,
    *,
    rows: Sequence[int] | None = None,
    everywhere: bool = False,
    mean: bool = False,
    together: bool = False,
    **how: Unpack[Choosing],
) -> Answer:
    """The answer of a model with each head ablated in turn, held against its baseline, as `attn knock`.

    text        a text, or a prompt that the model's source has read
    rows        the rows in which heads are ablated; None for those that predict the answer
    everywhere  ablate in all rows, and measure the change of the text's mean loss (-log2 p) besides, in bits a token
    mean        ablate a head to its mean output over the other rows, not to 0
    together    ablate all chosen heads at once, too

    Effects are in bits: log2 p(answer) without the head, less log2 p(answer). The answer is the likeliest next token of
    the last row, or what was generated. Encoders: 1 - cosine of the mean vectors with and without the head. InputError
    for a missing head or row, and for a table; LoadError where heads can't be ablated.

        for head in knock("The capital of France is", "gpt2")["heads"][:5]:
            print(head["layer"], head["head"], head["bits"])
    """
    source = opened(text, model, tokenizer, how, predicts=True)
    if not isinstance(source, Predicting):
        raise InputError("heads are ablated in a model, and this source runs none", "choose a model")
    ablation = of_knock.Ablation(rows, everywhere, mean, together)
    return of_knock.knock(source, text, ablation, selection=selected(how))


def read_parts(
    text: str | Prompt,
    model: Model = DEFAULT_MODEL,
    parts: Sequence[TextPart] | str = "lines",
    *,
    tokenizer: Any = None,
    rows: Sequence[int] | None = None,
    everywhere: bool = False,
    **how: Unpack[Choosing],
) -> Answer:
    """The attention of some rows to the parts of a text, and the effect of hiding each part, as `attn parts`.

    text        a text, or a prompt that the model's source has read
    parts       "lines", "paragraphs", "sentences" or "words", or parts of that prompt as `parts_of` makes them
    rows        the rows that read; None for those that chose what was generated, else those of the last part; in an
                encoder all
    everywhere  hide a part from all rows after it, and not only from the rows that read

    The effect is the change of the answer's log2 p, in bits; of an encoder the cosine distance of mean vectors; None
    for a table or a recording. InputError for another word in `parts`.
    """
    source, cut = opened(text, model, tokenizer, how, predicts=True), "parts"
    prompt = source.read([text])[0] if isinstance(text, str) else text
    if isinstance(parts, str):
        if parts not in CUTS:
            raise InputError(f"no way to cut a text is called {parts!r}", f"parts= takes {', '.join(CUTS)}")
        cut, parts = parts, parts_of(prompt, parts)
    chosen = selected(how)
    return of_parts.read_parts(source, prompt, parts, rows=rows, everywhere=everywhere, selection=chosen, cut=cut)
