"""Learn W_Q and W_K that make one word attend to another."""

import numpy as np

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.command import OutputOptions, shows_report
from attn_cli.cli.kit.run.texts import whole_texts
from attn_cli.cli.kit.shell.signature import argument, option, takes_options
from attn_cli.errors import InputError
from attn_cli.sources import open_table_source
from attn_cli.summaries.answers.learn import Example, descend, learning_of
from attn_cli.summaries.report import Report
from attn_cli.text import cut
from attn_cli.token_syntax import all_places, first_place


@takes_options
@shows_report
def learn(
    texts: list[str] = argument("TEXT", "Learn from texts that contain the word and a target. One may be -.", ...),
    word: str = option("--word -w WORD|INDEX", "Train this word's attention.", ...),
    to: list[str] = option("--to WORD", "Attend to this word (repeatable).", ...),
    steps: int = option("--steps N", "Take N steps of gradient descent.", 100, min=1),
    model: str = o.TABLE,
    *,
    output: OutputOptions,
) -> Report:
    """Learn W_Q and W_K that make one word attend to another.

    The loss is -log of the word's weight on the targets, the mean over heads and texts. -o learned.npz saves the
    projections and the table's name. -m learned.npz opens the table with them.

    \b
    Examples:
      attn learn "I love apple phone" --word apple --to phone
      attn learn "apple phone" "a phone by apple" --word apple --to phone -o l.npz
      attn top "her apple phone" --token apple -m learned.npz
    """
    source = open_table_source(model)
    prompts = [source.read([text])[0] for text in whole_texts(texts)]
    notes, examples = list[str](), list[Example]()
    for prompt in prompts:
        (query, *_), more = first_place(word, prompt)
        rows = sorted({row for target in to for row in all_places(target, prompt)})
        if not rows:
            reason = f"no {' or '.join(map(repr, to))} in {cut(prompt.text, 60)!r}"
            raise InputError(reason, "every text must contain the word and a target")
        examples.append(Example(source.vectors(prompt), query, tuple(rows)))
        notes += more
    identity = np.eye(source.table.width)
    descent = descend(examples, identity, identity, source.table.heads, steps=steps)
    if descent.losses[-1] >= descent.losses[0]:
        notes.append(f"the loss did not fall at rate {descent.rate:g}")
    learning = learning_of(word, to, prompts, examples, descent, table=source.table_name)
    return Report("learn", source.about, tuple(prompts), warnings=tuple(notes), answer=learning)
