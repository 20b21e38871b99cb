"""Ablate each head and measure what the answer loses."""

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.command import TextCommandOptions
from attn_cli.cli.kit.run.text_run import each_report
from attn_cli.cli.kit.shell.signature import option, takes_options
from attn_cli.cli.kit.stderr import Progress
from attn_cli.errors import ExitCode, InputError
from attn_cli.model.source import Predicting, Source
from attn_cli.selection_syntax import selection_of
from attn_cli.sources import is_model, is_recording
from attn_cli.summaries.answers.knock import Ablation
from attn_cli.summaries.answers.knock import knock as knock_heads
from attn_cli.summaries.report import Report
from attn_cli.token_syntax import picked_tokens
from attn_cli.views.view import View


@takes_options
def knock(
    options: TextCommandOptions,
    k: int = option("--top -k K", "Show K heads on the screen.", 12, min=1),
    token: str | None = option(
        "--token -t WORD|INDEX", "Ablate heads at these positions, not at the one that predicts the answer."
    ),
    everywhere: bool = option(
        "--everywhere", "Ablate heads at all positions, and report the change of the text's loss."
    ),
    together: str | None = option("--together HEADS", "Ablate these heads together, and one by one: 18.6,17.3."),
    mean: bool = option("--mean", "Mean ablation (over the other rows) instead of zero ablation."),
    width: str | None = o.WIDTH,
) -> ExitCode:
    """Ablate each head and measure what the answer loses.

    A head's output becomes 0 at the position that predicts the next token. The rest of the run is the model's own.
    Effects are changes of log2 p of the likeliest next token, or with --generate N of all generated tokens. For an
    encoder: the cosine distance of its mean vector.

    \b
    Examples:
      attn knock "The capital of France is" -m gpt2
      attn knock "The capital of France is" -m gpt2 --everywhere -k 5
      attn knock --file prompt.txt -m ./my-model --together 18.6,17.3
    """
    if token is not None and everywhere:
        raise InputError("--token and --everywhere at once", "leave out one of them")
    if together is not None and not options.chooses_no_head:
        raise InputError("--together and --layer or --head at once", "--together names its heads itself")
    if not is_model(options.model):
        kind = "a recording" if is_recording(options.model) else "a table of word vectors"
        raise InputError(f"{options.model} is {kind}, and attn knock runs a model", "-m MODEL, in its place")
    selection = options.selection if together is None else selection_of(None, together)

    def report(source: Source, view: View, text: str, number: int) -> Report:
        assert isinstance(source, Predicting)
        if token is not None and not source.has_lm_head:
            hint = "leave it out: others have all rows ablated"
            raise InputError("--token is for models that choose next tokens", hint)
        prompt = source.read([text], options.pair)[0]
        tokens = prompt.others.get("decoder", prompt.tokens)
        rows, notes = (None, ()) if token is None else picked_tokens(token, tokens, prompt.text)
        ablation = Ablation(rows, everywhere, mean, together is not None)
        shown = None if view.largest is None else k
        layers, quiet = 2 * len(source.planned_layers(selection)), options.quiet  # each runs, and then its heads
        with Progress(layers, 1, number, quiet=quiet, verbose=options.verbose, noun="step") as progress:
            answer = knock_heads(source, prompt, ablation, selection=selection, shown=shown, step=progress.step)
        return Report("knock", source.about, (prompt,), warnings=notes, answer=answer)

    return each_report(options, report)
