"""A hub that refuses, fails or never answers is told in one line, and soon; a folder never asks it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import constants
from huggingface_hub import errors as hub_errors
from huggingface_hub.utils import get_session

from attn_cli.errors import InputError, LoadError
from attn_cli.sources.huggingface.load.hub import check_hub, hub_timeout, network_of
from attn_cli.sources.huggingface.load.load_errors import load_error
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from tests.program import SHORT

MODEL = Origin("no/model", "no/model", OriginOptions(), local=False)


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("ATTN_HUB_TIMEOUT", str(SHORT))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))


def at(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    hub = f"http://127.0.0.1:{port}"
    monkeypatch.setattr(constants, "ENDPOINT", hub)
    monkeypatch.setattr("huggingface_hub.file_download.HUGGINGFACE_CO_URL_TEMPLATE", hub + "/{repo_id}", raising=False)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub + "/{repo_id}/resolve/{revision}/{filename}")


class Failing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        self.send_response(503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


released = threading.Event()


@contextmanager
def server(kind: type[BaseHTTPRequestHandler] = Failing) -> Iterator[ThreadingHTTPServer]:
    """A hub that fails, and keeps what it was asked for."""
    failing = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    failing.asked = []  # type: ignore[attr-defined]
    threading.Thread(target=failing.serve_forever, daemon=True).start()
    yield failing
    failing.shutdown()
    failing.server_close()


def refused(words: str) -> None:
    with pytest.raises(LoadError, match=words) as caught:
        check_hub(MODEL)
    assert "no/model" in caught.value.message
    assert "127.0.0.1" in caught.value.message
    assert "--offline" in caught.value.hint


def test_a_hub_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        at(monkeypatch, closed.getsockname()[1])
        refused("can't be reached")


def test_a_hub_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        at(monkeypatch, silent.getsockname()[1])
        monkeypatch.setenv("ATTN_HUB_TIMEOUT", "0.5")
        refused(r"didn't answer in 0.5 s")
        silent.setblocking(False)
        asked = []
        with pytest.raises(BlockingIOError):
            while True:
                asked.append(silent.accept())
        assert len(asked) <= 1  # once, and not again and again; on a busy machine not even that
        for connection, _ in asked:
            connection.close()


def test_a_hub_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with server() as hub:
        at(monkeypatch, hub.server_address[1])
        refused(r"has failed \(HTTP 503\)")
        assert hub.asked == ["/no/model/resolve/main/config.json"]  # type: ignore[attr-defined]


def test_what_is_in_the_cache_is_read_from_there_while_the_hub_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    snapshot = tmp_path / "models--no--model" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (tmp_path / "models--no--model" / "refs").mkdir()
    (tmp_path / "models--no--model" / "refs" / "main").write_text("abc")
    monkeypatch.setattr("attn_cli.sources.huggingface.load.hub.try_to_load_from_cache",
                        lambda *_, **__: str(snapshot / "config.json"))  # fmt: skip
    with server() as hub:
        at(monkeypatch, hub.server_address[1])
        origin = check_hub(MODEL)
    assert origin.offline
    assert "not all in the cache, and the hub at" in load_error(hub_errors.OfflineModeIsEnabled(), origin).message


class FallsSilent(Failing):
    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        if self.path == "/weights":
            released.wait()
        self.send_response(200)
        self.end_headers()


def test_a_hub_that_stops_answering_is_asked_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(FallsSilent) as hub:
        at(monkeypatch, hub.server_address[1])
        origin = check_hub(MODEL)
        monkeypatch.setenv("ATTN_HUB_TIMEOUT", "0.5")
        with pytest.raises(LoadError, match=r"no/model is not all in the cache.* stopped answering"):
            load_weights(origin, hub.server_address[1])
        released.set()
        # once each, and nobody asks for a list of programs that ask
        assert hub.asked == ["/no/model/resolve/main/config.json", "/weights"]  # type: ignore[attr-defined]
    assert not constants.HF_HUB_OFFLINE
    assert "send" not in vars(get_session())


def load_weights(origin: Origin, port: int) -> None:
    """As a library that asks twice, goes on without, and complains of something else."""
    with network_of(origin):
        for _ in range(2):
            with pytest.raises(hub_errors.OfflineModeIsEnabled):
                get_session().get(f"http://127.0.0.1:{port}/weights", timeout=None)
        raise OSError("a file is missing")


def test_nothing_is_asked_offline_nor_for_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, 1)
    folder = Origin("./m", "./m", OriginOptions())
    assert check_hub(folder) is folder
    offline = Origin("a/b", "a/b", OriginOptions(offline=True), local=False)
    assert check_hub(offline) is offline
    with network_of(folder), pytest.raises(hub_errors.OfflineModeIsEnabled):
        get_session().get("http://127.0.0.1:1/")
    assert not constants.HF_HUB_OFFLINE


@pytest.mark.parametrize("text", ["0", "-1", "x", "nan", "1e9"])
def test_a_timeout_that_is_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTN_HUB_TIMEOUT", text)
    with pytest.raises(InputError, match="ATTN_HUB_TIMEOUT"):
        hub_timeout()
