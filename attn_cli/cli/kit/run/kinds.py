"""What `attn heads --kinds` runs: a text as other commands do, or random tokens written twice."""

from attn_cli.call import Call
from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.plan import Plan, ReducersFor, Rows
from attn_cli.cli.kit.run.text_run import run
from attn_cli.cli.kit.stderr.progress import Progress
from attn_cli.errors import ExitCode, InputError
from attn_cli.source import Source
from attn_cli.summaries.answers.kinds import CollectedKinds, KindMap, with_kinds
from attn_cli.summaries.calls.memo import memoised
from attn_cli.summaries.reducers.kinds.head_kinds import HeadKindsReducer, KindTexts
from attn_cli.summaries.report import Report
from attn_cli.views.view import View


def kinds_of_heads(options: TextCommandOptions, *, words: bool, seed: int | None) -> ExitCode:
    """Name the heads on each text; without one on random tokens."""
    without_text = (options.text, options.file, options.lines) == (None, None, False)
    if not without_text or options.without_text:
        plan = Plan(text_kinds(seed or 0), words=options.merges(words), finish=with_kinds)
        return run(options, "kinds", lambda view, source: plan)
    for name, value in (
        ("--pair", options.pair),
        ("--generate", options.generate),
        ("--chat", options.in_chat or None),
    ):
        if value is not None:
            raise InputError(f"{name} goes with a text", "give one; without it the model reads random tokens")
    with options.view() as view:
        _on_random_tokens(options, view, options.source(), seed or 0)
    return ExitCode.DONE


def text_kinds(seed: int) -> ReducersFor:
    """The reducers that judge heads on the text that a call is about."""
    texts = memoised(lambda tokens: KindTexts([tokens], seed=seed))

    def of_call(rows: Rows, call: Call) -> list[HeadKindsReducer]:
        return [HeadKindsReducer(texts(call.keys))]

    return of_call


def _on_random_tokens(options: TextCommandOptions, view: View, source: Source, seed: int) -> None:
    """Judge the heads on random tokens written twice, and show it."""
    prompts = source.repeated(seed)
    collected = CollectedKinds(prompts, seed, by_share=False)
    layers = len(source.planned_layers(options.selection))
    for start in range(0, len(prompts), source.batch_size):
        batch = prompts[start : start + source.batch_size]
        with Progress(layers, len(batch), start, quiet=options.quiet, verbose=options.verbose) as progress:

            def visit(call: Call) -> None:
                collected.visit(call)
                progress.step()

            source.each(batch, options.selection, visit)
    answer = KindMap(collected.summaries, seed, tuple(len(prompt.tokens) for prompt in prompts))
    view.show(Report("kinds", source.about, tuple(prompts), answer=answer))
