"""Shards computed by Ray (https://ray.io): workers on this machine or on many, each with a model of its own."""

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attn_cli.errors import AttnError, InputError, LimitError, LoadError, reason
from attn_cli.kernel.bands.threads import used_cores
from attn_cli.model.source import Source
from attn_cli.scans.kept.manifest import ScannedModel
from attn_cli.scans.read.scan_options import ScanOptions
from attn_cli.scans.read.scannable import scannable
from attn_cli.scans.read.shards import Shard
from attn_cli.scans.run.memory import DEFAULT_MEMORY, longest_text, within
from attn_cli.scans.sums.shard_sums import scan_shard
from attn_cli.scans.sums.sum_arrays import SumArrays, arrays_of
from attn_cli.text import excerpt

_WHERE = "ray status says where one runs; --ray auto starts one here"
_LAST_PORT = 65535
_PATIENCE = 10.0  # seconds in which a cluster answers
_AHEAD = 2  # shards per worker that are handed out before their results are there
_APART = 4  # times as many may wait for the sums of an earlier one
_DEATHS = r"Task Worker\.\w+ failed|A worker died or was killed"  # which Ray would print to our standard output
_TRIES = 5  # of a shard whose worker dies
_OURS = "attn-scan"  # a resource that marks a Ray of our own, which ends with the scan that started it
_OBJECTS = 256 * 2**20  # bytes of memory that is shared between processes of a Ray of our own
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}

OpenSource = Callable[[], Source]


class Worker:
    """A worker process of Ray: it opens the model, and scans one shard (up to 256 documents) after the other."""

    def __init__(self, opens: OpenSource, options: ScanOptions, memory: int) -> None:
        self.source = scannable(opens())
        self.options = within(memory, self.source, options)
        self._replaces = _takes_the_place_of_another()

    def about(self) -> ScannedModel:
        """The model that is scanned: name, type, revision, dtype, device, a hash of its parameters, longest text."""
        return ScannedModel(self.source.about, self.source.fingerprint(), longest_text(self.options))

    def labels(self, ids: Sequence[int]) -> list[str]:
        """The text of each token id by itself, as the model's tokenizer has it."""
        return self.source.labels(ids)

    def scan(self, shard: Shard) -> tuple[int, SumArrays, str | None]:
        """The shard's number, its sums as arrays, and the name of a restarted worker; None if it never died."""
        return shard.number, arrays_of(scan_shard(self.source, shard, self.options)), self._replaces

    def process(self) -> int:
        """The process id of the worker."""
        return os.getpid()


def _takes_the_place_of_another() -> str | None:
    import ray

    context = ray.get_runtime_context()
    return f"{context.get_node_id()}:{os.getpid()}" if context.was_current_actor_reconstructed else None


class RayWorkers:
    """Ray's workers, which share the shards of a scan; `replaced` names those that did a dead one's part."""

    def __init__(self, actors: Sequence[Any], ray: Any) -> None:
        self.actors, self._ray = tuple(actors), ray
        self.replaced: set[str] = set()
        self._first = self.actors[0]

    def model(self) -> ScannedModel:
        """The model that is scanned: name, type, revision, dtype, device, a hash of its parameters, longest text."""
        with _explained(self._ray):
            return self._ray.get(self._first.about.remote())

    def labels(self, ids: Sequence[int]) -> list[str]:
        """The text of each token id by itself, as the model's tokenizer has it."""
        return list(self._ray.get(self._first.labels.remote(list(ids))))

    def processes(self) -> list[int]:
        """The process ids of all workers, once each has opened its model."""
        return list(self._ray.get([actor.process.remote() for actor in self.actors]))

    def compute(self, shards: Iterator[Shard]) -> Iterator[tuple[Shard, SumArrays]]:
        """The shards (groups of documents) with their sums as arrays, in the order in which workers finish."""
        from ray.util import ActorPool

        pool = ActorPool(list(self.actors))
        handed_out: dict[int, Shard] = {}

        def following() -> tuple[Shard, SumArrays]:
            with _explained(self._ray):
                number, arrays, replaces = pool.get_next_unordered()
            self.replaced |= {replaces} if replaces else set()
            return handed_out.pop(number), arrays

        most = _AHEAD * len(self.actors)
        for shard in shards:
            handed_out[shard.number] = shard
            pool.submit(lambda actor, each: actor.scan.remote(each), shard)
            while len(handed_out) >= most or shard.number - min(handed_out) >= _APART * most:
                yield following()
        while handed_out:
            yield following()


@contextmanager
def ray_workers(
    address: str, opens: OpenSource, options: ScanOptions, memory: int = DEFAULT_MEMORY
) -> Iterator[RayWorkers]:
    """Context manager: workers on the cluster at `address`; "auto" finds one that runs, or starts one here."""
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", _DEATHS)  # read while Ray is imported
    try:
        import ray
    except ImportError:
        raise LoadError("--ray needs Ray", "pip install 'attn-cli[scan-ray]'") from None
    ours = _connected(ray, address)
    try:
        needs, count = _workers(ray)
        kind = ray.remote(Worker).options(max_restarts=-1, max_task_retries=_TRIES, **needs)
        yield RayWorkers([kind.remote(opens, options, memory) for _ in range(count)], ray)
    finally:
        if ours:
            ray.shutdown()


def _connected(ray: Any, address: str) -> bool:
    """Connect to a cluster; whether it was made for this purpose."""
    if ray.is_initialized():
        return False
    if address != "auto":
        _check_reachable(address)
    try:
        ray.init(address=address, **_QUIET)
    except ConnectionError as error:
        if address != "auto":
            raise LoadError(f"can't connect to a Ray at {excerpt(address)}: {excerpt(reason(error), 100)}",
                            "where it asks for a token, set RAY_AUTH_MODE=token before the line; "
                            "its version must be the same as here") from None  # fmt: skip
        _start(ray)
    except ValueError as error:
        raise InputError(f"--ray {excerpt(address)}: {excerpt(reason(error), 100)}", "auto, or HOST:PORT") from None
    else:
        if address == "auto" and _OURS in ray.cluster_resources():  # that of another scan
            ray.shutdown()
            _start(ray)
    return True


def _check_reachable(address: str) -> None:
    """LoadError where nothing answers at HOST:PORT, which Ray itself would try for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or int(port) > _LAST_PORT:
        raise InputError(f"--ray {excerpt(address)} is not HOST:PORT", "give auto or HOST:PORT")
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
    except OSError as error:
        raise LoadError(f"no Ray at {excerpt(address)}: {excerpt(reason(error), 100)}", _WHERE) from None


def _start(ray: Any) -> None:
    ray.init(
        address="local", num_cpus=used_cores(), resources={_OURS: 1}, object_store_memory=_OBJECTS,
        include_dashboard=False, **_QUIET,
    )  # fmt: skip


def _workers(ray: Any) -> tuple[dict[str, float], int]:
    """The cores and GPUs of each worker, and the number of workers: one for each GPU, else for each machine."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    gpus = int(sum(machine.get("GPU", 0) for machine in machines))
    if gpus:
        return {"num_gpus": 1, "num_cpus": 1}, gpus
    most = int(max((machine.get("CPU", 0) for machine in machines), default=0))
    needed = max(1, most)
    return {"num_cpus": needed}, max(1, sum(int(machine.get("CPU", 0) // needed) for machine in machines))


@contextmanager
def _explained(ray: Any) -> Iterator[None]:
    """Context manager: errors of a worker's own are raised as they were there, and a dead worker is one line."""
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, AttnError):
            raise error.cause from None
        raise
    except ray.exceptions.ActorDiedError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, AttnError):
            raise cause from None
        raise LimitError(
            f"a worker of Ray died: {excerpt(str(error).strip().splitlines()[-1], 120)}",
            "the same line goes on where it was; does the model fit in a worker's memory?",
        ) from None
