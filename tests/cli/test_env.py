"""`attn env` and variables; memory and time of a run: refused before it starts, printed with -v, shown as it runs."""

import io
import os
import platform
import re
import time
from importlib.metadata import version
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import torch

from attn_cli import __version__
from attn_cli.cli import env as command
from attn_cli.cli.kit.stderr import Progress
from attn_cli.kernel.cpu.library import VECTORS, is_built, widest_vectors
from attn_cli.sources import memory
from attn_cli.sources.huggingface.anatomy.devices import device_of
from attn_cli.sources.huggingface.load.cache import cached_models
from attn_cli.summaries.answers.env import HEEDED, PACKAGES
from tests.conftest import ROOT
from tests.program import attn, refused
from tests.views.test_schemas import hold


def test_versions_devices_and_extras_are_those_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "may_have_accelerator", lambda: True)  # so that torch is asked
    run = attn("env", "--json")
    hold(run, "env")
    assert (run.json["attn"], run.json["warnings"], run.errors) == (__version__, [], "")
    result = run.json["tables"]
    facts = {row["fact"]: row["value"] for row in result["facts"]}
    assert (facts["python"], facts["platform"]) == (platform.python_version(), platform.platform())
    assert facts["compiled kernel"] == (VECTORS[widest_vectors()] if is_built() else "none: attn guide costs")
    assert {row["package"]: row["version"] for row in result["packages"]} == {name: version(name) for name in PACKAGES}
    devices = {row["device"]: row for row in result["devices"]}
    assert devices["cpu"]["threads"] == torch.get_num_threads()
    assert devices["cpu"]["cores"] == len(os.sched_getaffinity(0))
    assert ("cuda:0" in devices, "mps" in devices) == (torch.cuda.is_available(), torch.backends.mps.is_available())
    assert result["devices"][0]["device"].partition(":")[0] == device_of("auto").type


def test_cached_models_are_listed_and_a_broken_cache_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = tmp_path / "hub"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(hub))
    assert cached_models() == (str(hub), {}, 0)
    model = hub / "models--org--ant"
    for place in (model / "blobs", model / "snapshots" / "0123456789", model / "refs", hub / "models--org--half"):
        place.mkdir(parents=True)
    (model / "blobs" / "a").write_bytes(bytes(2_000_000))
    (model / "snapshots" / "0123456789" / "config.json").symlink_to(model / "blobs" / "a")
    (model / "refs" / "main").write_text("0123456789")
    before = sorted(hub.rglob("*"))
    tables = attn("env", "--json").json["tables"]
    assert tables["models"] == [{"model": "org/ant", "bytes": 2_000_000}]
    facts = {row["fact"]: row["value"] for row in tables["facts"]}
    assert (facts["cache"], facts["broken in cache"]) == (str(hub), "1")
    assert sorted(hub.rglob("*")) == before


def test_every_variable_that_the_code_reads_is_listed() -> None:
    read = {
        name
        for file in (ROOT / "attn_cli").rglob("*.py")
        for name in re.findall(r'(?:environ\.\w+\(|environ\[|getenv\()"(\w+)"', file.read_text("utf-8"))
    }
    assert {"NO_COLOR", "ATTN_DEBUG"} < read and all(map(HEEDED.fullmatch, read))


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_no_password_is_told(options: list[str]) -> None:
    secret = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT", "HTTPS_PROXY", "http_proxy")
    text = attn("env", *options, env=dict.fromkeys(secret, "http://me:hidden@host") | {"COLORTERM": "24bit"}).text
    assert "hidden" not in text and "24bit" in text


ENTRY = ["matrix", "he sat on the river bank", "-H", "0"]


def test_an_option_wins_over_its_variable() -> None:
    env = {"ATTN_COLOR_SCALE": "log", "FORCE_COLOR": "1"}
    assert "log scale" in attn(*ENTRY, env=env).text
    assert "sqrt scale" in attn(*ENTRY, "--color-scale", "sqrt", env=env).text
    assert "toy:the-cat-sat" in attn("inspect", "the cat", env={"ATTN_MODEL": "toy:the-cat-sat"}).text


def test_a_switch_is_turned_on_by_1_and_off_by_0() -> None:
    warned = attn("heads", "the rivre bank", env={"ATTN_QUIET": "0"}).errors
    assert "rivre" in warned
    assert attn("heads", "the rivre bank", env={"ATTN_QUIET": "1"}).errors == ""


def test_a_model_is_for_commands_that_take_one() -> None:
    variables = {"ATTN_MODEL": "./no-such-model"}
    refused(attn("inspect", "the cat", env=variables), 3, "./no-such-model")
    assert attn("nearest", "cat", "-k", "1", env=variables).code == 0


def test_what_a_variable_cannot_be_is_named_with_it() -> None:
    refused(attn(*ENTRY, env={"ATTN_COLOR_SCALE": "no"}), 2, "ATTN_COLOR_SCALE", "'no' is not one of 'linear', 'raw'")


def test_help_shows_the_variables() -> None:
    page = attn("inspect", "--help").text
    for name in ("MODEL", "DEVICE", "DTYPE", "COLOR_SCALE", "QUIET"):
        assert f"[env var: ATTN_{name}" in " ".join(page.split())


LIMIT = 4


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 1000)


@pytest.mark.usefixtures("little_memory")
def test_whole_matrices_that_do_not_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "he sat on the river bank"
    words = ["4 matrices of 6 x 6", "free", "--token"]  # 4 heads x 6 x 6 x weights and scores x 4 bytes = 1,152
    refused(attn("matrix", text, "-o", "a.npz"), LIMIT, *words)
    np.save("q.npy", np.ones((30, 2), np.float32))
    refused(attn("compute", "--q", "q.npy", "-o", "a.json"), LIMIT, "3 matrices of 30 x 30", "-f npy")
    assert [file.name for file in tmp_path.iterdir()] == ["q.npy"]


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("less", [("-H", "0"), ("--mean",), ("--token", "bank"), ("-f", "terminal")], ids=" ".join)
def test_what_is_suggested_then_fits(less: tuple[str, ...]) -> None:
    assert attn("matrix", "he sat on the river bank", "-f", "json", *less).code == 0


def test_verbose_says_length_memory_and_time() -> None:
    start = time.monotonic()
    run = attn("matrix", "he sat on the river bank", "-v", "-f", "json")
    elapsed = time.monotonic() - start
    assert run.code == 0
    loaded, length, ran = run.errors.splitlines()
    assert loaded.startswith("attn: loaded in ")
    assert length.startswith("attn: 6 tokens · 4 matrices of 6 x 6 take 1.15 KB")
    said = re.fullmatch(r"attn: ran in (\d+\.\d\d) s, peak memory [\d.]+ [MG]B", ran)
    assert said is not None
    assert 0 <= float(said[1]) <= elapsed + 0.005  # rounded to hundredths
    assert attn("matrix", "he sat on the river bank", "-v", "-q", "-f", "json").errors == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """The terminal that standard error is from now on."""
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", terminal)
    return terminal


def seen(terminal: Terminal) -> str:
    """All that a terminal was given, without its codes."""
    return re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "\n", terminal.getvalue())


def test_a_run_shows_a_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with Progress(layers=30, texts=1, earlier_texts=0, quiet=False, verbose=False) as running:
        for _ in range(3):
            running.step()
            assert running._line is not None
            running._line.refresh()
    assert "layer 1 of 30" in seen(terminal) and "layer 4 of 30" in seen(terminal)
    assert terminal.getvalue().endswith("\x1b[2K")  # the line is blanked last


def test_a_pipe_and_quiet_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    for stream, quiet in ((io.StringIO(), False), (terminal, True)):
        monkeypatch.setattr("sys.stderr", stream)
        with Progress(layers=30, texts=1, earlier_texts=0, quiet=quiet, verbose=False) as running:
            running.step()
        assert stream.getvalue() == ""
