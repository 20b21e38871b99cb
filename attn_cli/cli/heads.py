"""One line per head: how spread, how far, and at what."""

from attn_cli.cli.kit import options as o
from attn_cli.cli.kit.dataclass_options import takes_options
from attn_cli.cli.kit.shared_options import TextCommandOptions
from attn_cli.errors import ExitCode
from attn_cli.summaries.reducers.heads.head_statistics import HeadStatistics


@takes_options
def heads(options: TextCommandOptions, words: o.Words = False) -> ExitCode:
    """One line per head: how spread, how far, and at what.

    \b
    Examples:
      attn heads "river bank" -m ./my-model
      attn heads --file prompt.txt -m gpt2 -f csv | sort -t, -k4 -g | head
    """
    return options.run("heads", lambda view, source: lambda rows, call: [HeadStatistics()], words=options.merges(words))
