"""`attn env`: what this machine really has, no password, and nothing left out."""

import os
import platform
import re
import tomllib
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import huggingface_hub
import pytest
import torch

from attn_cli import __version__
from attn_cli.cli import env as command
from attn_cli.kernel.cpu.c_library import VECTORS, is_built, widest_vectors
from attn_cli.sources.huggingface.load import device
from attn_cli.sources.huggingface.load.cache import ModelCache, cached_models
from attn_cli.summaries.answers.env import EXTRAS, PACKAGES, TOLD, UNTOLD, Installation, OutputStream
from attn_cli.summaries.report import Report
from attn_cli.views import data
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.screens import render
from tests.conftest import ROOT
from tests.program import attn, strict_json
from tests.test_rooms import modules_after
from tests.views.test_golden import GoldenScreen
from tests.views.test_hostile import ALL, harmless
from tests.views.test_schemas import hold

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


def on_screen(installation: Installation, screen: Screen) -> str:
    source = {"model": "this installation", "type": "installation", "dtype": "none", "device": "none"}
    return render(Report("env", source, answer=installation), screen)


def test_versions_devices_and_extras_are_those_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "may_have_accelerator", lambda: True)  # so that torch is asked
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


def test_packages_and_extras_are_those_of_the_installation() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {extra: tuple(re.findall(r"^[\w-]+", line)[0] for line in lines)
             for extra, lines in project["optional-dependencies"].items()}  # fmt: skip
    assert names == EXTRAS
    assert set(PACKAGES) <= {re.split(r"\W", line)[0] for line in project["dependencies"]}


def test_cached_models_are_listed_and_a_broken_cache_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = tmp_path / "hub"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(hub))
    assert cached_models() == ModelCache(str(hub), {}, 0)
    model = hub / "models--org--ant"
    for place in (model / "blobs", model / "snapshots" / "0123456789", model / "refs", hub / "models--org--half"):
        place.mkdir(parents=True)
    (model / "blobs" / "a").write_bytes(bytes(2_000_000))
    (model / "snapshots" / "0123456789" / "config.json").symlink_to(model / "blobs" / "a")
    (model / "refs" / "main").write_text("0123456789")
    before = sorted(hub.rglob("*"))
    assert attn("env", "--json").json["result"]["cache"] == {
        "folder": str(hub), "models": [{"name": "org/ant", "bytes": 2_000_000}], "broken": 1,
    }  # fmt: skip
    assert sorted(hub.rglob("*")) == before


def test_every_variable_that_the_code_reads_is_listed() -> None:
    read = {
        name
        for file in (ROOT / "attn_cli").rglob("*.py")
        for name in re.findall(r'(?:environ\.\w+\(|environ\[|getenv\()"(\w+)"', file.read_text("utf-8"))
    }
    assert {"NO_COLOR", "ATTN_DEBUG"} < read <= set(TOLD)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_no_password_is_told(options: list[str]) -> None:
    text = attn("env", *options, env=dict.fromkeys(UNTOLD, "http://me:hidden@host") | {"COLORTERM": "24bit"}).text
    assert "hidden" not in text and "24bit" in text


def test_the_screen(golden_screen: GoldenScreen) -> None:
    golden_screen("env", lambda width: on_screen(MACHINE, Screen(width)))


@pytest.mark.parametrize("ascii_only", [False, True])
def test_names_from_outside_are_shown_harmless_and_kept_exactly(ascii_only: bool) -> None:
    for text in ALL:
        strange = replace(
            MACHINE, cache=text, models={text: 1}, variables={"TERM": text}, platform=text, broken=0,
            devices=[MACHINE.devices[0] | {"name": text}], stdout=replace(MACHINE.stdout, encoding=text),
        )  # fmt: skip
        screen = on_screen(strange, Screen(40, "none", ascii_only))
        harmless(screen)
        assert not ascii_only or screen.isascii()
        report = Report("env", {}, answer=strange)
        assert strict_json(data.to_json(report))["result"]["variables"] == [{"name": "TERM", "value": text}]


def test_transformers_is_never_imported() -> None:
    assert "transformers" not in modules_after("env")
