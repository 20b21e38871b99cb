"""Commands start without torch, and no modules import each other."""

import os
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from tests.program import SHORT, attn, environment

HEAVY = {"torch", "transformers"}
_REPORT = """
import atexit, sys
atexit.register(lambda: print("MODULES", *sorted(sys.modules), file=sys.stderr))
from attn_cli.cli import main
main()
"""


def modules_after(*arguments: str, env: dict[str, str] | None = None) -> set[str]:
    """The names of all modules that `attn` had imported when it ended."""
    done = subprocess.run(
        [sys.executable, "-c", _REPORT, *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=4 * SHORT,  # one of them loads a model
        env=environment(**(env or {})), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    last = done.stderr.decode().splitlines()[-1].split()
    assert last[0] == "MODULES"
    return set(last[1:])


@pytest.fixture
def q(tmp_path: Path) -> str:
    (tmp_path / "q.csv").write_text("1,0\n0,1\n")
    return os.fspath(tmp_path / "q.csv")


@pytest.mark.parametrize(
    "arguments",
    [
        ["schema", "top"], ["inspect", "river bank", "--json"],
        ["matrix", "the cat sat", "-m", "toy:the-cat-sat", "-f", "html"], ["compute", "--q", "Q", "-f", "npz"],
        ["nearest", "bank", "-k", "2"], ["compare", "river bank", "bank loan"],
        ["inspect", "-m", "RECORDING"], ["top", "-m", "RECORDING", "-o", "OUT.attn"],
        ["learn", "apple phone", "--word", "apple", "--to", "phone", "--steps", "3"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_tables_matrices_and_recordings_start_without_torch(arguments: list[str], q: str, tmp_path: Path) -> None:
    files = {"Q": q, "RECORDING": os.fspath(tmp_path / "x.attn"), "OUT.attn": os.fspath(tmp_path / "y.attn")}
    if "RECORDING" in arguments:
        assert attn("heads", "river bank", "-o", files["RECORDING"]).code == 0
    assert not HEAVY & modules_after(*(files.get(word, word) for word in arguments))


def test_what_a_command_does_not_need_is_not_imported() -> None:
    assert not {"cmap", "rich.table", "attn_cli.sources.tables.source"} & modules_after("--version")
    loaded = modules_after("inspect", "river bank")
    foreign, own = {"cmap", "numpy.ma", "pydantic", "safetensors", "torch"}, {"sources.tables.files"}
    own |= {"summaries.answers.compare", "summaries.answers.learn"}
    assert not (foreign | {f"attn_cli.{name}" for name in own}) & loaded


def test_completion_starts_without_torch() -> None:
    words = {"_ATTN_COMPLETE": "complete_bash", "COMP_WORDS": "attn heads -m toy:", "COMP_CWORD": "3"}
    assert not HEAVY & modules_after(env=words)


def test_importing_the_package_costs_nothing() -> None:
    names = "import attn_cli, sys; attn_cli.__version__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", names], capture_output=True, text=True, timeout=SHORT, check=True)
    assert not {"torch", "transformers", "numpy", "typer", "rich"} & set(done.stdout.split())


def order_of_imports(graph: grimp.ImportGraph) -> TopologicalSorter[str]:
    """The modules, each after those that it imports; imports for types alone count, too."""
    return TopologicalSorter({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})


def test_no_modules_import_each_other() -> None:
    graph = grimp.build_graph("attn_cli", cache_dir=None)
    assert graph.direct_import_exists(importer="attn_cli.call", imported="attn_cli.prompt")
    order_of_imports(graph).prepare()
    graph.add_import(importer="attn_cli.prompt", imported="attn_cli.call")
    with pytest.raises(CycleError):
        order_of_imports(graph).prepare()


def test_without_torch_tables_work_and_models_name_what_is_missing(tmp_path: Path) -> None:
    """A process in which torch and transformers are not installed: a finder in front of all others hides them."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('torch', 'transformers'):\n"
        "            raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
    )
    variables = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{Path.cwd()}"}
    for words, code in ((["inspect", "river bank"], 0), (["inspect", "river bank", "-m", "gpt2"], 3)):
        done = subprocess.run(
            [sys.executable, "-m", "attn_cli", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=SHORT, env=variables,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
    assert done.stderr.startswith("attn: models need torch and transformers") and "pip install" in done.stderr
