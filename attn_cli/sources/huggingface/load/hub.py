"""One request with a timeout to the hub; none for local models."""

import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from huggingface_hub import constants, get_session, hf_hub_url, try_to_load_from_cache
from huggingface_hub import errors as hub_errors
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # public, and not in __all__

from attn_cli.errors import InputError, LimitError, LoadError
from attn_cli.sources.huggingface.load.origin import Origin

DEFAULT_TIMEOUT = 6  # and what starts before and after it: ten seconds together

# Else the library asks the hub for a list of programs that may call it, to tell the hub which one does.
constants.HF_HUB_DISABLE_TELEMETRY = True


def hub_timeout() -> float:
    """The seconds to wait for the hub: ATTN_HUB_TIMEOUT, or 6 without it.

    InputError unless it is a number above 0 and at most 3600.
    """
    text = os.environ.get("ATTN_HUB_TIMEOUT") or str(DEFAULT_TIMEOUT)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise InputError(f"ATTN_HUB_TIMEOUT is {text!r}", "a number of seconds, 3600 at most")
    return seconds


def check_hub(origin: Origin) -> Origin:
    """The origin of a model on the hub after the hub has answered; from the cache alone where it doesn't.

    One request that takes no longer than `hub_timeout`, before libraries ask again and again. A local model, and one
    that must be read offline, stays as it is.

    Raises LoadError where the hub doesn't answer and the cache lacks the model.
    """
    if origin.offline:
        return origin
    problem = _problem(origin, hub_timeout())
    if not problem:
        return origin
    options = origin.options
    if isinstance(try_to_load_from_cache(origin.path, "config.json", revision=options.revision), str):
        return replace(origin, hub_problem=problem)
    raise not_in_cache(origin, problem)


def not_in_cache(origin: Origin, problem: str, missing: str = "not in the cache") -> LoadError:
    """The error for a model that has to come from the hub, which has a problem.

    problem  the end of a sentence about the hub, such as "can't be reached"
    missing  what is said of the model, such as "not in the cache"
    """
    return LoadError(
        f"{origin.name} is {missing}, and the hub at {urlsplit(constants.ENDPOINT).netloc} {problem}",
        "--offline asks the cache alone; ATTN_HUB_TIMEOUT=60 waits a minute; a path starts with ./",
    )


@contextmanager
def network_of(origin: Origin) -> Iterator[None]:
    """Context manager: no request leaves this machine where the origin is local, or to be read offline.

    A configuration may name other repositories (a backbone, a tokenizer, an adapter's base), for which transformers
    would ask the hub. Where the hub may be asked, it is until it leaves one request without an answer: then the cache
    alone, instead of asking again and again; LoadError where that isn't enough.
    """
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or origin.offline
    session = None if constants.HF_HUB_OFFLINE else get_session()
    if session is not None:
        session.send = _with_timeout(session.send, hub_timeout())  # type: ignore[method-assign]
    try:
        yield
    except (InputError, LimitError):
        raise
    except Exception as error:
        if constants.HF_HUB_OFFLINE and session is not None:
            raise not_in_cache(origin, "stopped answering", "not all in the cache") from error
        raise
    finally:
        constants.HF_HUB_OFFLINE = before
        if session is not None:
            del session.send


def _with_timeout(send: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """`send` of a client of HTTP with a limit of time; libraries are offline after the first request that fails."""

    def bounded(request: Any, **options: Any) -> Any:
        request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), seconds)
        try:
            return send(request, **options)
        except Exception as error:  # of any type, and as many types as there are clients of HTTP
            constants.HF_HUB_OFFLINE = True
            raise hub_errors.OfflineModeIsEnabled(_connection_problem(error, seconds)) from error

    return bounded


def _problem(origin: Origin, seconds: float) -> str:
    """The problem with the hub's answer, as the end of a sentence; "" for an answer.

    Asked in a thread, because looking up a host's name knows no timeout.
    """
    answers: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=lambda: answers.put(_probe(origin, seconds)), daemon=True).start()
    try:
        return answers.get(timeout=seconds)
    except queue.Empty:
        return f"didn't answer in {seconds:g} s"


def _probe(origin: Origin, seconds: float) -> str:
    url = hf_hub_url(origin.path, "config.json", revision=origin.options.revision)
    try:
        status = get_session().get(url, headers=build_hf_headers(), timeout=seconds).status_code
    except Exception as error:  # of any type, as above
        return _connection_problem(error, seconds)
    return f"has failed (HTTP {status})" if status >= 500 or status == 429 else ""


def _connection_problem(error: Exception, seconds: float) -> str:
    line = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    return f"didn't answer in {seconds:g} s" if "timed out" in line.lower() else f"can't be reached: {line}"
