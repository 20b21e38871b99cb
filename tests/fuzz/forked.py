"""A command run in a forked child of a process that has everything imported: milliseconds, and a crash harms nobody."""

import gc
import importlib
import os
import pkgutil
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import attn_cli
from attn_cli.cli import main
from tests.program import environment

CPU_SECONDS, WALL_SECONDS = 20, 120
MOST_ADDRESSES, LARGEST_FILE = 12 * 2**30, 2**28
ESCAPED = 99  # an exception that left main()
_HEAVY = ("attn_cli.sources.huggingface", "attn_cli.explore", "attn_cli.kernel.gpu", "attn_cli.__main__",
          "attn_cli.kernel.cpu._fused",
          "attn_cli.sources.tables.make_minilm")  # fmt: skip


class Outcome(NamedTuple):
    """Exit code, or minus the number of the signal that ended it; what was printed; the most memory it had."""

    code: int
    out: bytes
    errors: str
    memory: int


def run(arguments: Sequence[str], folder: Path, stdin: bytes = b"", **variables: str) -> Outcome:
    """`attn` with these arguments in `folder`, whose streams lie in files beside it."""
    files = [folder.with_name(f"{folder.name}.{name}") for name in ("in", "out", "err")]
    files[0].write_bytes(stdin)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _become(arguments, folder, files, variables)
    _, status, usage = os.wait4(child, 0)
    out, errors = files[1].read_bytes(), files[2].read_bytes().decode("utf-8", "backslashreplace")
    for file in files:
        file.unlink()
    return Outcome(os.waitstatus_to_exitcode(status), out, errors, usage.ru_maxrss * 1024)


def _become(arguments: Sequence[str], folder: Path, files: Sequence[Path], variables: dict[str, str]) -> None:
    """Never returns."""
    code = ESCAPED
    gc.disable()
    try:
        os.chdir(folder)
        for number, file in enumerate(files):
            how = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            os.dup2(os.open(file, how, 0o600), number)
        sys.stdin = os.fdopen(0, "r", encoding="utf-8", errors="surrogateescape", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        for limit, most in ((resource.RLIMIT_AS, MOST_ADDRESSES), (resource.RLIMIT_CPU, CPU_SECONDS),
                            (resource.RLIMIT_FSIZE, LARGEST_FILE), (resource.RLIMIT_CORE, 0)):  # fmt: skip
            resource.setrlimit(limit, (most, most))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGXCPU, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(WALL_SECONDS)
        os.environ.clear()
        os.environ.update(_ENVIRONMENT | variables)
        sys.argv = ["attn", *arguments]
        main()
    except SystemExit as request:
        code = request.code if isinstance(request.code, int) else ESCAPED
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


_ENVIRONMENT = environment(HF_HUB_OFFLINE="1", COLUMNS="90")


def in_child(function: Callable[..., object], *arguments: object) -> None:
    """Call a function in a child, so that what it imports makes no later child larger."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            function(*arguments)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def import_all() -> None:
    """Import what commands import, but for torch, which only models need."""
    for module in pkgutil.walk_packages(attn_cli.__path__, "attn_cli."):
        if not module.name.startswith(_HEAVY):
            importlib.import_module(module.name)
    for name in (
        "rich.console",
        "rich.markdown",
        "orjson",
        "cmap",
        "pyarrow.parquet",
        "pyarrow.compute",
        "datasketches",
    ):
        importlib.import_module(name)
