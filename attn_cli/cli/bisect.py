"""Find where another engine's numbers leave the model's, and why."""

from typing import Annotated, Literal

import typer

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.model import LoadOptions
from attn_cli.cli.kit.options.output import OutputOptions
from attn_cli.cli.kit.run.texts import Texts
from attn_cli.cli.kit.shell.commands import KERNEL_CHECK
from attn_cli.cli.kit.shell.signature import takes_options
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.cli.kit.stderr.status_line import StatusLine
from attn_cli.dump import Dump
from attn_cli.errors import ExitCode, InputError
from attn_cli.model.source import Referring, Source
from attn_cli.prompt import Prompt, Token
from attn_cli.sources import is_model
from attn_cli.sources.dumps import TOKENS, open_dump
from attn_cli.summaries.bisect.answer import BisectRequest, DifferingTokens, differing_tokens
from attn_cli.summaries.bisect.answer import bisect as bisected
from attn_cli.summaries.bisect.placing import StationNames
from attn_cli.summaries.report import Report
from attn_cli.text import excerpt, listed


@takes_options
def bisect(
    dump: Annotated[
        str | None,
        typer.Argument(metavar="DUMP", show_default=False,
                       help="Read another engine's arrays: .npz, .safetensors, .npy or a folder."),
    ] = None,
    text: o.Text = None,
    file: o.File = None,
    model: o.Model = "toy",
    map_: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="NAME=STATION",
                     help="Say what arrays are: 'blk{layer}.q=q_rotated'; repeat for others."),
    ] = None,
    precision: Annotated[
        Literal["float32", "bfloat16", "float16", "4-bit"] | None,
        typer.Option("--precision", metavar="DTYPE",
                     help="Measure the noise in float32, bfloat16, float16 or 4-bit (default: the dump's)."),
    ] = None,
    until: Annotated[
        int | None, typer.Option("--until", metavar="LAYER", help="Compare layers up to this one.", min=0)
    ] = None,
    *,
    output: OutputOptions,
    loading: LoadOptions,
) -> ExitCode:  # fmt: skip
    """Find where another engine's numbers leave the model's, and why.

    DUMP holds what the engine saw of a text, each array called by its layer and station: 3.residual_in, 3.q_rotated,
    3.heads, logits ... The model runs on the same tokens (the dump's `tokens`, or TEXT), once as it is and once in the
    dump's precision. The first array that differs by more than that is named; usual mistakes are then made on purpose
    until the dump's numbers come out. Exit code 1 if anything is wrong.

    \b
    Examples:
      attn bisect mine.safetensors -m ./my-model
      attn bisect mine.npz "the cat sat" -m ./my-model --json
      attn bisect mine.npz -m ./my-model -f md > issue.md
      attn bisect dumps/ -m ./my-model --map 'blk{layer}.q=q_rotated' --until 3
    """
    if dump is None:
        raise InputError("no dump", f"name its file or folder    a kernel's output alone: {KERNEL_CHECK}")
    if not is_model(model):
        raise InputError("bisect needs the model that the dump is held against",
                         f"name it with --model    a kernel's output alone: {KERNEL_CHECK}")  # fmt: skip
    names = StationNames(tuple(map_ or ()))
    found = open_dump(dump)
    given = text is not None or file is not None
    if not given and found.tokens is None:
        raise InputError(f"{found.label} holds no tokens, and no text is given",
                         f"save the ids as {listed(TOKENS)}, or give the text")  # fmt: skip
    with output.view() as view:
        source = loading.open(model, quiet=output.quiet, predicts=True, reads_text=given)
        assert isinstance(source, Referring)
        prompt, differing = _read(source, found, text, file, given=given)
        ids = [token.id or 0 for token in prompt.tokens]
        print_notes(prompt.warnings, quiet=output.quiet)
        with StatusLine("reading the dump", quiet=output.quiet) as line:
            answer = bisected(
                source.reference(), ids, found, BisectRequest(precision, names, until, differing), line.say
            )
        view.show(Report("bisect", source.about, (prompt,), warnings=prompt.warnings, answer=answer))
    return ExitCode.DONE if answer.is_equal else ExitCode.NEGATIVE


def _read(
    source: Source, dump: Dump, text: str | None, file: str | None, *, given: bool
) -> tuple[Prompt, DifferingTokens | None]:
    """The dump's tokens, else those of the text; where both are given, the first that differs."""
    prompt = None
    if given:
        whole = next(Texts(text, file, lines=False))
        assert isinstance(whole, str)
        prompt = source.read([whole])[0]
        if dump.tokens is None:
            return prompt, None
    assert dump.tokens is not None and isinstance(source, Referring)
    if not dump.tokens or min(dump.tokens) < 0:
        raise InputError(
            f"the tokens of {dump.label} are no ids: {excerpt(str(dump.tokens[:8]))}", "save whole numbers"
        )
    labels = source.labels(dump.tokens)
    tokens = tuple(Token(at, label, number) for at, (label, number) in enumerate(zip(labels, dump.tokens, strict=True)))
    own = Prompt("", tokens)
    if prompt is None:
        return own, None
    differing = differing_tokens(dump.tokens, [token.id or 0 for token in prompt.tokens])
    return (own if differing else prompt), differing
