"""Parts made by Ray (https://ray.io): workers on this machine or on many, each with a model of its own."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from attn_cli.errors import AttnError, InputError, LimitError, LoadError, optional, reason
from attn_cli.kernel.bands.threads import used_cores
from attn_cli.model.source import Source
from attn_cli.scans.part import scan_shard
from attn_cli.scans.texts import ScanOptions, Shard, scannable
from attn_cli.sources.memory import let_go
from attn_cli.text import excerpt

_PATIENCE = 10.0  # seconds in which a cluster answers
_AHEAD = 2  # shards per worker that are handed out before their parts are there
_TRIES = 5  # of a shard whose worker dies
_OBJECTS = 256 * 2**20  # bytes of memory that is shared between processes of a Ray of our own
_DEATHS = r"Task Worker\.\w+ failed|A worker died or was killed"  # which Ray would print to our standard output
_OURS = "attn-scan"  # a resource that marks a Ray of our own
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}

OpenSource = Callable[[], Source]


class Worker:
    """This process, or one of Ray's: it opens the model, and makes the part of one shard after the other."""

    def __init__(self, opens: OpenSource, options: ScanOptions) -> None:
        self.source, self.options = scannable(opens()), options

    def model(self) -> tuple[dict[str, Any], str]:
        """What the model is called, its precision and device, and a hash of its parameters."""
        return self.source.about, self.source.fingerprint()

    def scan(self, shard: Shard, said: dict[str, Any]) -> tuple[int, bytes, bytes]:
        """The shard's number, and the files of its part and of its rejects."""
        let_go()  # what the shard before took, else memory grows over some ten shards
        return shard.number, *scan_shard(self.source, shard, self.options, said)

    def compute(self, shards: Iterator[Shard], said: dict[str, Any]) -> Iterator[tuple[int, bytes, bytes]]:
        """The shards' numbers and files, one after the other."""
        return (self.scan(shard, said) for shard in shards)


class RayWorkers:
    """Ray's workers, which share the parts of a scan."""

    def __init__(self, ray: Any, opens: OpenSource, options: ScanOptions) -> None:
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        gpus, cores = ([int(machine.get(name, 0)) for machine in machines] for name in ("GPU", "CPU"))
        most = max([1, *cores])  # a worker for each GPU, else for each machine
        needs = {"num_gpus": 1, "num_cpus": 1} if any(gpus) else {"num_cpus": most}
        kind = ray.remote(Worker).options(max_restarts=-1, max_task_retries=_TRIES, **needs)
        count = sum(gpus) or max(1, sum(each // most for each in cores))
        self._ray, self.actors = ray, [kind.remote(opens, options) for _ in range(count)]

    def model(self) -> tuple[dict[str, Any], str]:
        """What the model is called, its precision and device, and a hash of its parameters."""
        with _explained(self._ray):
            return self._ray.get(self.actors[0].model.remote())

    def compute(self, shards: Iterator[Shard], said: dict[str, Any]) -> Iterator[tuple[int, bytes, bytes]]:
        """The shards' numbers and files as workers finish them."""
        from ray.util import ActorPool

        pool, under_way = ActorPool(self.actors), 0
        with _explained(self._ray):
            for shard in shards:
                pool.submit(lambda actor, each: actor.scan.remote(each, said), shard)
                under_way += 1
                if under_way == _AHEAD * len(self.actors):
                    yield pool.get_next_unordered()
                    under_way -= 1
            while pool.has_next():
                yield pool.get_next_unordered()


@contextmanager
def ray_workers(address: str, opens: OpenSource, options: ScanOptions) -> Iterator[RayWorkers]:
    """Context manager: workers on the cluster at `address`; "auto" finds one that runs, or starts one here."""
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", _DEATHS)  # read while Ray is imported
    ray = optional("ray", "scan-ray", "--ray needs")
    ours = not ray.is_initialized()
    if ours:
        _connect(ray, address)
    try:
        yield RayWorkers(ray, opens, options)
    finally:
        if ours:
            ray.shutdown()


def _connect(ray: Any, address: str) -> None:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address != "auto" and (not host or not port.isdecimal() or int(port) > 65535):
        raise InputError(f"--ray {excerpt(address)} is not HOST:PORT", "give auto or HOST:PORT")
    try:
        if address != "auto":  # Ray itself would try for many minutes
            socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
        ray.init(address=address, **_QUIET)
        if address == "auto" and _OURS in ray.cluster_resources():  # that of another scan, which ends with it
            ray.shutdown()
            raise ConnectionError
    except OSError as error:  # a ConnectionError of Ray's, too
        if address != "auto":
            hint = "ray status says where one runs, of the same version as here · RAY_AUTH_MODE=token gives a token"
            raise LoadError(f"no Ray at {excerpt(address)}: {excerpt(reason(error), 100)}", hint) from None
        own = {"num_cpus": used_cores(), "object_store_memory": _OBJECTS, "resources": {_OURS: 1}}
        ray.init(address="local", include_dashboard=False, **own, **_QUIET)


@contextmanager
def _explained(ray: Any) -> Iterator[None]:
    """Context manager: errors of a worker's own are raised as they were there, and a dead worker is one line."""
    try:
        yield
    except (ray.exceptions.RayTaskError, ray.exceptions.ActorDiedError) as error:
        if isinstance(cause := getattr(error, "cause", None), AttnError):
            raise cause from None
        why = excerpt(str(error).strip().splitlines()[-1], 120)
        hint = "the same line goes on where it was · does the model fit in a worker's memory?"
        raise LimitError(f"a worker of Ray failed: {why}", hint) from error
