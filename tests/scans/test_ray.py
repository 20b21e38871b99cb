"""Ray computes the same shards: also when a worker is killed in the middle of one."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray")
pytest.importorskip("datasketches")


import ray

from attn_cli.scans.read.scan_options import ScanOptions
from attn_cli.scans.read.shards import Shard
from attn_cli.scans.run.ray_workers import ray_workers
from attn_cli.scans.sums.sum_arrays import SumArrays
from tests.program import environment
from tests.scans.corpora import sentences, small_shards, table_scan, written
from tests.scans.word_texts import open_words

__all__ = ["small_shards"]
_ANOTHER = """
import ray
from attn_cli.scans.run.ray_workers import ray_workers
from attn_cli.scans.read.scan_options import ScanOptions
from tests.scans.word_texts import open_words
with ray_workers("auto", open_words, ScanOptions()):
    print(ray.get_runtime_context().gcs_address)
"""


@pytest.mark.usefixtures("small_shards")
def test_a_killed_worker_s_shards_are_done_again_and_the_tables_are_those_of_one_process(tmp_path: Path) -> None:
    file = written(tmp_path, sentences(40))
    with ray_workers("auto", open_words, ScanOptions()) as workers:
        first = workers.processes()

        def killing(shards: Iterator[Shard]) -> Iterator[Shard]:
            for shard in shards:
                yield shard
                if shard.number == 5:
                    os.kill(first[0], signal.SIGKILL)

        def compute(shards: Iterator[Shard]) -> Iterator[tuple[Shard, SumArrays]]:
            return workers.compute(killing(shards))

        assert table_scan(file, tmp_path / "ray", compute) == table_scan(file, tmp_path / "here")
        assert workers.processes() != first
        assert len(workers.replaced) == 1
        own = ray.get_runtime_context().gcs_address
        run = [sys.executable, "-c", _ANOTHER]
        another = subprocess.run(run, env=environment(), capture_output=True, text=True, timeout=120, check=True)
        assert another.stdout.split() and another.stdout.split()[-1] != own
