"""`attn env`: what this machine really has, no password, and nothing left out."""

import os
import platform
import re
import sys
import tomllib
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import huggingface_hub
import pytest
import torch

from attn_cli import __version__
from attn_cli.cli import env as command
from attn_cli.kernel.cpu import c_library
from attn_cli.kernel.cpu.c_library import VECTORS, is_built, widest_vectors
from attn_cli.sources.devices import may_have_accelerator
from attn_cli.sources.huggingface.load import device
from attn_cli.sources.huggingface.load.cache import ModelCache, cached_models
from attn_cli.summaries.answers import env as answer
from attn_cli.summaries.answers.env import EXTRAS, PACKAGES, TOLD, UNTOLD, Installation, OutputStream
from attn_cli.summaries.report import Report
from attn_cli.views import data
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.screens import render
from tests.conftest import ROOT
from tests.program import attn, process, refused, strict_json
from tests.test_rooms import modules_after
from tests.views.test_golden import GoldenScreen
from tests.views.test_hostile import ALL, harmless
from tests.views.test_schemas import hold

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def cache(folder: Path, **sizes: int) -> Path:
    """A cache of the hub that holds a file of so many bytes of each model org/NAME, and a data set."""
    for name in [f"models--org--{name}" for name in sizes] + ["datasets--org--texts"]:
        blob = folder / name / "blobs" / "a"
        snapshot = folder / name / "snapshots" / COMMIT
        for place in (blob.parent, snapshot, folder / name / "refs"):
            place.mkdir(parents=True)
        blob.write_bytes(bytes(sizes.get(name.rpartition("-")[2], 1)))
        (snapshot / "config.json").symlink_to(blob)
        (folder / name / "refs" / "main").write_text(COMMIT)
    return folder


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, not there yet, in which the hub's library looks for its cache."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


MACHINE = Installation(
    python="3.11.7",
    platform="Linux-6.18-x86_64-with-glibc2.36",
    compiled_kernel="AVX-512",
    packages={"torch": "2.13.0", "transformers": "5.23.0", "numpy": "2.4.6", "typer": "0.29.2", "rich": None},
    devices=[
        {"device": "cuda:0", "name": "NVIDIA H100", "cores": None, "threads": None, "bytes": 85_000_000_000},
        {"device": "cpu", "name": "AMD EPYC, AVX512", "cores": 16, "threads": 8, "bytes": None},
    ],
    extras={"gguf": ("gguf",), "image": (), "audio": ("soxr",)},
    cache="/home/reader/.cache/huggingface/hub",
    models={f"org/model-{number}": 10**8 * number for number in range(1, 31)},
    broken=2,
    variables={"NO_COLOR": "1", "TERM": "xterm-256color", "HF_TOKEN": None},
    stdout=OutputStream(terminal=True, width=80, depth="256", encoding="utf-8", ascii_only=False),
)
CROWDED = replace(
    MACHINE,
    platform="x" * 99,
    devices=[MACHINE.devices[0] | {"device": f"cuda:{number}"} for number in range(8)],
    extras=dict.fromkeys(EXTRAS, ("missing",)),
    variables=dict.fromkeys(TOLD, "value " * 9) | dict.fromkeys(UNTOLD),
)


def on_screen(installation: Installation, screen: Screen) -> str:
    source = {"model": "this installation", "type": "installation", "dtype": "none", "device": "none"}
    return render(Report("env", source, answer=installation), screen)


@pytest.fixture
def with_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that may have a graphics card, so that torch is asked."""
    monkeypatch.setattr(command, "may_have_accelerator", lambda: True)


@pytest.mark.usefixtures("with_a_driver")
def test_versions_devices_and_extras_are_those_of_this_machine() -> None:
    run = attn("env", "--json")
    hold(run, "env")
    assert (run.json["attn"], run.json["warnings"], run.errors) == (__version__, [], "")
    result = run.json["result"]
    assert (result["python"], result["platform"]) == (platform.python_version(), platform.platform())
    assert result["compiled_kernel"] == (VECTORS[widest_vectors()] if is_built() else None)
    assert {row["name"]: row["version"] for row in result["packages"]} == {name: version(name) for name in PACKAGES}
    devices = {row["device"]: row for row in result["devices"]}
    assert devices["cpu"]["threads"] == torch.get_num_threads()
    assert devices["cpu"]["cores"] == len(os.sched_getaffinity(0))
    assert ("cuda:0" in devices, "mps" in devices) == (torch.cuda.is_available(), torch.backends.mps.is_available())
    assert result["devices"][0]["device"].partition(":")[0] == device.device_of("auto").type


def test_compiled_code_of_another_version_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "_fused.so").write_bytes(b"no code")
    monkeypatch.setattr(c_library, "_built_file", lambda: str(tmp_path / "_fused.so"))
    monkeypatch.setattr(c_library, "library", c_library.library.__wrapped__)  # not the one found before
    run = attn("env")
    assert "the compiled kernel is of another version: install attn again" in " ".join(run.text.split())
    result = attn("env", "--json").json["result"]
    assert (result["compiled_kernel"], result["unusable_kernel"]) == (None, True)
    monkeypatch.setattr(c_library, "_built_file", lambda: None)
    assert attn("env", "--json").json["result"]["unusable_kernel"] is False


def test_a_graphics_card_is_named_with_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    class Card:
        name = "NVIDIA H100"
        total_memory = 85_000_000_000

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: Card)
    rows = device.devices()
    assert [row["device"] for row in rows] == ["cuda:0", "cuda:1", "cpu"]
    assert (rows[1]["name"], rows[1]["bytes"]) == ("NVIDIA H100", 85_000_000_000)


def test_packages_and_extras_are_those_of_the_installation() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {extra: tuple(re.findall(r"^[\w-]+", line)[0] for line in lines)
             for extra, lines in project["optional-dependencies"].items()}  # fmt: skip
    assert names == EXTRAS
    assert set(PACKAGES) <= {re.split(r"\W", line)[0] for line in project["dependencies"]}


def test_what_an_extra_lacks_comes_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "_version", lambda name: None if name == "accelerate" else "1")
    rows = {row["name"]: row for row in attn("env", "--json").json["result"]["extras"]}
    assert rows["gguf"] == {"name": "gguf", "missing": ["accelerate"], "install": "pip install 'attn-cli[gguf]'"}
    assert rows["audio"] == {"name": "audio", "missing": [], "install": None}


def test_cached_models_are_listed_with_their_bytes_and_nothing_is_changed(hub: Path) -> None:
    before = sorted(cache(hub, zebra=300, ant=2_000_000).rglob("*"))
    result = attn("env", "--json").json["result"]["cache"]
    models = [{"name": "org/ant", "bytes": 2_000_000}, {"name": "org/zebra", "bytes": 300}]
    assert result == {"folder": str(hub), "models": models, "broken": 0}
    assert sorted(hub.rglob("*")) == before
    assert re.search(r"org/ant +2\.0 MB", attn("env").text)


def test_a_cache_that_is_missing_or_broken_is_no_error(hub: Path) -> None:
    assert cached_models() == ModelCache(str(hub), {}, 0)
    cache(hub, whole=5)
    (hub / "models--org--half").mkdir()
    assert cached_models() == ModelCache(str(hub), {"org/whole": 5}, 1)
    hub.rename(hub.with_name("away"))
    hub.write_text("a file")
    assert cached_models() == ModelCache(str(hub), {}, 1)
    run = attn("env")
    assert (run.code, run.errors) == (0, "")
    assert "1 can't be read" in run.text


def test_the_cache_is_the_one_that_the_environment_names(tmp_path: Path) -> None:
    cache(tmp_path / "hub", small=7)
    run = process("env", "-f", "jsonl", env={"HF_HOME": str(tmp_path)})
    rows = [strict_json(line) for line in run.bytes.splitlines()]
    assert {"kind": "model", "name": "org/small", "value": 7} in rows
    assert {"kind": "variable", "name": "HF_HOME", "value": str(tmp_path)} in rows


def test_every_variable_that_the_code_reads_is_listed() -> None:
    read = {
        name
        for file in (ROOT / "attn_cli").rglob("*.py")
        for name in re.findall(r'(?:environ\.\w+\(|environ\[|getenv\()"(\w+)"', file.read_text("utf-8"))
    }
    assert {"NO_COLOR", "ATTN_DEBUG"} < read <= set(TOLD)


def test_no_password_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in TOLD:  # what a library set in this process takes lines of the screen
        monkeypatch.delenv(name, raising=False)
    secrets = dict.fromkeys(UNTOLD, "http://me:hidden@host")
    for format in ("terminal", "json", "jsonl", "csv", "tsv", "html", "svg"):
        text = attn("env", "-f", format, env=secrets | {"COLORTERM": "24bit"}).text
        assert "hidden" not in text
        assert "24bit" in text
        assert all(name in text for name in UNTOLD if name != "HUGGING_FACE_HUB_TOKEN")
    values = {row["name"]: row["value"] for row in attn("env", "--json", env=secrets).json["result"]["variables"]}
    assert {name: values[name] for name in UNTOLD} == dict.fromkeys(UNTOLD)


def test_standard_output_is_told_as_screens_see_it() -> None:
    def stdout(**options: object) -> dict[str, object]:
        row: dict[str, object] = attn("env", "--json", **options).json["result"]["stdout"]
        return row

    terminal = stdout(terminal=True, env={"COLUMNS": "99", "TERM": "xterm-256color"}, encoding="ascii")
    shown = {"terminal": True, "width": 99, "depth": "256", "encoding": "ascii", "ascii_only": True}
    pipe = {"terminal": False, "width": 80, "depth": "none", "encoding": "utf-8", "ascii_only": False}
    assert terminal == shown
    assert stdout() == pipe


@pytest.mark.parametrize(
    ("module", "words", "section"),
    [("device", "torch can't be imported", "devices"), ("cache", "huggingface_hub can't be imported", "cache")],
)
@pytest.mark.usefixtures("with_a_driver")
def test_a_library_that_cannot_be_imported_is_said_and_the_rest_is_told(
    module: str, words: str, section: str, hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, f"attn_cli.sources.huggingface.load.{module}", None)
    run = attn("env")
    assert run.code == 0
    assert words in run.errors
    assert ("no models" in run.text) == (section == "devices")
    assert re.search(rf"^{section} +unknown$", run.text, re.MULTILINE)
    assert attn("env", "--quiet").errors == ""
    held = attn("env", "--json", "--quiet")
    hold(held, "env")
    assert words in held.json["warnings"][0]


def test_the_screen(golden_screen: GoldenScreen) -> None:
    golden_screen("env", lambda width: on_screen(MACHINE, Screen(width)))


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("installation", [MACHINE, CROWDED], ids=["usual", "crowded"])
def test_all_of_it_is_there_within_the_width(installation: Installation, ascii_only: bool) -> None:
    text = on_screen(installation, Screen(80, "none", ascii_only))
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("org/model-") == len(installation.models)
    assert all(str(row["device"]) in text for row in installation.devices)
    assert ("2 can't be read" in text) == (installation.broken == 2)


@pytest.mark.parametrize("width", [20, 40, 80])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_names_from_outside_are_shown_harmless_and_kept_exactly(width: int, ascii_only: bool) -> None:
    for text in ALL:
        strange = replace(
            MACHINE, cache=text, models={text: 1}, variables={"TERM": text}, platform=text, broken=0,
            devices=[MACHINE.devices[0] | {"name": text}], stdout=replace(MACHINE.stdout, encoding=text),
        )  # fmt: skip
        screen = on_screen(strange, Screen(width, "none", ascii_only))
        harmless(screen)
        assert not ascii_only or screen.isascii()
        report = Report("env", {}, answer=strange)
        assert strict_json(data.to_json(report))["result"]["variables"] == [{"name": "TERM", "value": text}]
        data.to_npz(report)


def test_every_other_format_is_written_or_refused_in_a_line(tmp_path: Path) -> None:
    assert attn("env", "-o", tmp_path / "env.npz").code == 0
    assert set(ZipFile(tmp_path / "env.npz").namelist()) == {"kinds.npy", "names.npy", "values.npy"}
    assert attn("env", "-f", "csv").lines[:2] == ["kind,name,value", f"version,attn,{__version__}"]
    refused(attn("env", "-f", "md"), 2, "md has no table for the answer of env")
    refused(attn("env", "-f", "npy"), 2, "attn compute")


def test_torch_is_imported_where_a_graphics_card_may_be_and_transformers_never(tmp_path: Path) -> None:
    loaded = modules_after("env")
    assert ("torch" in loaded) == may_have_accelerator()
    assert "transformers" not in loaded
    (tmp_path / "driver").touch()
    linux = sys.platform.startswith("linux")
    assert (may_have_accelerator([]), may_have_accelerator([str(tmp_path / "driver")])) == (not linux, True)


def test_the_cpu_is_told_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "may_have_accelerator", lambda: False)
    monkeypatch.setitem(sys.modules, "attn_cli.sources.huggingface.load.device", None)  # it loads torch
    run = attn("env", "--json")
    hold(run, "env")
    (row,) = run.json["result"]["devices"]
    asked = device.devices()[-1]
    assert (row["device"], row["cores"], row["threads"]) == ("cpu", asked["cores"], None)
    assert str(asked["name"]).startswith(f"{row['name']}, ")
    assert run.errors == ""


def test_help_of_env_takes_no_torch() -> None:
    assert "torch" not in modules_after("env", "--help")
