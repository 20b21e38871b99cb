"""Ray makes the same parts: also when a worker is killed in the middle of one."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")
import ray

from attn_cli.scans import ray_workers
from attn_cli.scans.scan import scan
from attn_cli.scans.texts import Shard
from attn_cli.sources.corpora import open_corpus
from tests.scans.corpora import files_of, sentences, written
from tests.scans.word_texts import open_words


@pytest.mark.usefixtures("small_parts")
def test_a_killed_worker_s_parts_are_made_again_as_one_process_makes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, killed = written(tmp_path, [*sentences(38), "", "xyzzy"]), list[int]()
    compute = ray_workers.RayWorkers.compute

    def killing(self: Any, shards: Iterator[Shard], said: dict[str, Any]) -> Iterator[tuple[int, bytes, bytes]]:
        def watched() -> Iterator[Shard]:
            for shard in shards:
                yield shard
                if shard.number == 5:
                    killed.append(ray.get(self.actors[0].__ray_call__.remote(lambda worker: os.getpid())))
                    os.kill(killed[0], signal.SIGKILL)

        return compute(self, watched(), said)

    monkeypatch.setattr(ray_workers.RayWorkers, "compute", killing)
    scan(open_words, open_corpus([str(file)]), str(tmp_path / "ray"), ray="auto")
    scan(open_words(), str(file), str(tmp_path / "here"))
    assert killed and files_of(tmp_path / "ray") == files_of(tmp_path / "here")
