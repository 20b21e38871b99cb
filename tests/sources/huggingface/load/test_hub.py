"""A hub that refuses or fails is told in one line, a model that is not cached with those that are."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import constants

from attn_cli.errors import ExitCode, LoadError
from attn_cli.sources.huggingface.load.cache import commit_of
from attn_cli.sources.huggingface.load.checkpoint import load
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from tests.program import SHORT, environment
from tests.sources.huggingface.models import tiny


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between the library's own retries


def at(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    hub = f"http://127.0.0.1:{port}"
    monkeypatch.setattr(constants, "ENDPOINT", hub)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub + "/{repo_id}/resolve/{revision}/{filename}")


class Failing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(503)
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def failing_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Failing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at(monkeypatch, server.server_address[1])
    yield
    server.shutdown()
    server.server_close()


def refused(words: str) -> None:
    with pytest.raises(LoadError, match=words) as caught:
        load(find("no/model", OriginOptions()))
    assert caught.value.code == ExitCode.LOAD
    assert caught.value.message.startswith("no/model is not all in the cache, and the hub at 127.0.0.1:")
    assert "\n" not in caught.value.message and "HF_HUB_OFFLINE=1" in caught.value.hint


def test_a_hub_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        at(monkeypatch, closed.getsockname()[1])
        refused("refused")


def test_a_hub_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with failing_hub(monkeypatch):
        refused("503")


@pytest.mark.parametrize("offline", [False, True])
def test_what_is_in_the_cache_is_read_from_there(
    offline: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    snapshot = tmp_path / "models--a--b" / "snapshots" / "abc"
    tiny("bert").save_pretrained(snapshot)
    (tmp_path / "models--a--b" / "refs").mkdir()
    (tmp_path / "models--a--b" / "refs" / "main").write_text("abc")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    with failing_hub(monkeypatch):
        assert load(find("a/b", OriginOptions(reads_text=False))).about["type"] == "bert"
        (snapshot / "model.safetensors").unlink()
        with pytest.raises(LoadError, match="a/b.*" + ("not all in the cache" if offline else "model.safetensors")):
            load(find("a/b", OriginOptions(reads_text=False)))


def test_an_id_that_is_not_cached_is_refused_before_torch_is_imported(tmp_path: Path) -> None:
    for name in ("openai--gpt2-medium", "org--other"):
        (tmp_path / f"models--{name}").mkdir()
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "attn_cli", "heads", "a b", "-m", "gpt2-medum"],
        env=environment(HF_HUB_CACHE=str(tmp_path), HF_HUB_OFFLINE="1"),
        capture_output=True, text=True, timeout=SHORT, check=False,
    )  # fmt: skip
    errors = [line for line in run.stderr.splitlines() if not line.startswith("import time")]
    assert run.returncode == 3
    assert errors[0] == "attn: gpt2-medum: offline, and not in the cache"
    assert "did you mean openai/gpt2-medium? cached: openai/gpt2-medium, org/other" in errors[1]
    assert "| torch\n" not in run.stderr.replace("  ", "")
    assert "transformers" not in run.stderr


def test_a_model_of_the_hub_is_told_with_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, repository = "0123456789abcdef" * 2 + "01234567", tmp_path / "models--a--b"
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    tiny("bert").save_pretrained(repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    assert (commit_of("a/b"), commit_of("a/b", commit), commit_of("a/c")) == (commit, commit, None)
    (repository / "refs" / "v1").write_text(commit)
    for name in ("a/b", "a/b@v1", f"a/b@{commit}"):
        about = load(find(name, OriginOptions(reads_text=False))).about
        assert (about["model"], about["revision"]) == (name, commit)
    with pytest.raises(LoadError, match="a/b@v2: offline, and not in the cache") as refusal:
        find("a/b@v2", OriginOptions())
    assert refusal.value.hint.endswith("with a network: hf download a/b --revision v2")
