"""Every type that transformers lists, in minutes: `pytest -m every_type`."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from tests.architectures.check import Result, built
from tests.architectures.layouts import CLOSE
from tests.architectures.reasons import MOVED_IN_BATCHES, NOT_BUILT, NOT_SAVED, OTHER_THAN_EAGER
from tests.architectures.test_survey import check_reloaded, small
from tests.architectures.tiny import every_type
from tests.tools.architectures.processes import check_in_process


@pytest.fixture(scope="session")
def results(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Result]]]:
    """The future result of every selected type; two are checked at once."""
    torch.set_num_threads(1)
    names = [
        x.callspec.params["name"] for x in request.session.items if getattr(x, "originalname", "") == "test_any_type"
    ]
    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(check_in_process, name) for name in names}
        pool.shutdown(cancel_futures=True)


@pytest.mark.every_type
@pytest.mark.parametrize("name", every_type())
def test_any_type(name: str, results: dict[str, Future[Result]]) -> None:
    result = results[name].result()
    if result.verdict == "not built":
        assert name in NOT_BUILT or "ImportError" in result.note, result
        pytest.skip(NOT_BUILT.get(name, result.note))
    if name in OTHER_THAN_EAGER:
        return
    assert result.verdict in ("equal", "close", "unreferenced", "no attention"), result
    assert result.output is not None and result.output <= CLOSE, result
    assert result.scores is None or result.scores <= CLOSE, result
    assert result.alone or not result.right or small(result.right), result
    assert result.alone or name in MOVED_IN_BATCHES or not result.left.startswith("differs"), result
    assert not result.cache.startswith(("differs", "refused")), result


@pytest.mark.every_type
@pytest.mark.parametrize("name", every_type())
def test_any_type_is_loaded_as_saved(name: str, tmp_path: Path) -> None:
    if reason := NOT_BUILT.get(name, NOT_SAVED.get(name)):
        pytest.skip(reason)
    try:
        model, _ = built(name)
    except ImportError as error:
        pytest.skip(str(error))
    check_reloaded(model, tmp_path)
