"""`attn env`: what this machine really has, no password, and nothing left out."""

import os
import platform
import re
from importlib.metadata import version
from pathlib import Path

import huggingface_hub
import pytest
import torch

from attn_cli import __version__
from attn_cli.cli import env as command
from attn_cli.kernel.cpu.library import VECTORS, is_built, widest_vectors
from attn_cli.sources.huggingface.load import device
from attn_cli.sources.huggingface.load.cache import ModelCache, cached_models
from attn_cli.summaries.answers.env import HEEDED, PACKAGES
from tests.conftest import ROOT
from tests.program import attn
from tests.views.test_hostile import ALL, harmless
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
    assert result["devices"][0]["device"].partition(":")[0] == device.device_of("auto").type


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


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_names_from_outside_are_shown_harmless_and_kept_exactly(encoding: str) -> None:
    for text in (text for text in ALL if "\0" not in text and text.encode("utf-8", "ignore").decode() == text):
        variables = {"LANG": text, "COLUMNS": "40"}
        harmless(attn("env", encoding=encoding, env=variables).bytes.decode(encoding))
        rows = attn("env", "--json", env=variables).json["tables"]["variables"]
        assert {"variable": "LANG", "value": text} in rows
