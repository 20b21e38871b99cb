"""Launches of two processes that share a model, by torchrun's own agent in one process: torch is imported once.

python -m tests.cli.launches_of_two LAUNCHES.json: of each launch its name, a module with a `main`, and the words
after it. The two processes of a launch are forks. NAME.out, NAME.err and NAME.code beside the file are how it ended.
"""

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from uuid import uuid4

import torch.distributed  # noqa: F401  here, once for all that are forked
import transformers.models.llama.modeling_llama  # noqa: F401
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

import attn_cli.sources.huggingface.source  # noqa: F401


def run_as_module(name: str, words: list[str]) -> None:
    """The `main` of a module, with `words` as its command line, in one of the two processes."""
    sys.argv = [name, *words]
    import_module(name).main()


def main() -> None:
    """Run one launch after the other, each with files as standard streams."""
    (listed,) = map(Path, sys.argv[1:])
    for name, module, words in json.loads(listed.read_text()):
        for number, stream in ((1, "out"), (2, "err")):
            with Path(listed.parent, f"{name}.{stream}").open("wb") as file:
                os.dup2(file.fileno(), number)
        config = LaunchConfig(
            min_nodes=1, max_nodes=1, nproc_per_node=2, run_id=str(uuid4()), start_method="fork",
            rdzv_backend="c10d", rdzv_endpoint="localhost:0", monitor_interval=0.1, max_restarts=0,
        )  # fmt: skip
        try:
            elastic_launch(config, run_as_module)(module, words)
            code = 0
        except ChildFailedError as failed:
            code = failed.get_first_failure()[1].exitcode
        Path(listed.parent, f"{name}.code").write_text(str(code))


if __name__ == "__main__":
    main()
