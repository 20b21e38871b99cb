"""Commands of attn one after the other in one of several processes that share a model: how each ended, as JSON.

torchrun --nproc-per-node 2 -m tests.cli.commands_of_a_rank COMMANDS.json OUT
"""

import json
import os
import sys
from pathlib import Path

from tests.program import attn


def main() -> None:
    """Write the exit code and both streams of each command on this rank."""
    commands, out = sys.argv[1:]
    runs = [attn(*words) for words in json.loads(Path(commands).read_text())]
    Path(out, os.environ["RANK"]).write_text(json.dumps([(run.code, run.text, run.errors) for run in runs]))


if __name__ == "__main__":
    main()
