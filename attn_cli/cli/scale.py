"""Show why scores are divided by sqrt(d)."""

from attn_cli.cli.kit.options.command import OutputOptions, shows_report
from attn_cli.cli.kit.shell.signature import option, takes_options
from attn_cli.errors import InputError
from attn_cli.model.source import about_of
from attn_cli.sources.numbers import numbers_in
from attn_cli.summaries.answers.scale import scaling
from attn_cli.summaries.report import Report

_LARGEST = 2**16
_HINT = "with commas: 1,2,4"


@takes_options
@shows_report
def scale(
    scores: str | None = option(
        "--scores S,S,...", "Show the softmax of these scores alone (default: 50,45,40, scaled)."
    ),
    factors: str | None = option("--factors F,F,...", "Multiply the scores by these factors, in as many rows."),
    dims: str | None = option("--dims D,D,...", "Draw products of q and k of these sizes."),
    *,
    output: OutputOptions,
) -> Report:
    """Show why scores are divided by sqrt(d).

    Softmax saturates with large scores, and products of long vectors are large.

    \b
    Examples:
      attn scale
      attn scale --scores 2,1,0.5                   one softmax
      attn scale --dims 64,128,4096 --json | jq .tables.variance
    """
    usual = "0.0625,0.125,0.25,0.5,1" if scores is None else "1"
    score_list = numbers_in("50,45,40" if scores is None else scores, "--scores", _HINT)
    factor_list = numbers_in(usual if factors is None else factors, "--factors", _HINT)
    drawn = dims if dims is not None or scores is not None else "1,4,16,64,256,1024"
    sizes = [] if drawn is None else numbers_in(drawn, "--dims", _HINT)
    wrong = next((d for d in sizes if d != int(d) or not 1 <= d <= _LARGEST), None)
    if wrong is not None:
        raise InputError(f"--dims {wrong:g} is not a valid size", f"whole numbers from 1 to {_LARGEST:,}")
    answer = scaling(score_list, factor_list, list(map(int, sizes)))
    return Report("scale", about_of("the scale 1 / sqrt(d)", "demonstration", "float64", "cpu"), answer=answer)
