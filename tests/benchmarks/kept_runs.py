"""Runs of a budget that are kept in a folder: a measurement that was stopped goes on where it was."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from attn_cli.summaries.budget.sample import SampleTexts, changes_of
from attn_cli.summaries.budget.scored_text import RUNS_OF_SLOPES
from attn_cli.summaries.budget.units import Unit

_TOGETHER = 8  # sets that run before they are kept


class KeptSample(SampleTexts):
    """The texts of a sample, whose runs are read from a folder where they were made before."""

    def __init__(self, sample: SampleTexts, folder: Path) -> None:
        super().__init__(sample.texts, sample.step)
        ids = [[token.id for token in text.prompt.tokens] + [text.scored] for text in sample.texts]
        self.folder = folder / hashlib.sha256(repr((ids, sample.bits)).encode()).hexdigest()[:16]
        self.folder.mkdir(parents=True, exist_ok=True)

    def losses(self, plans: Sequence[Sequence[Unit]]) -> np.ndarray:
        """As of the sample."""
        files = [self._file("losses", plan) for plan in plans]
        missing = [at for at, file in enumerate(files) if not file.exists()]
        for start in range(0, len(missing), _TOGETHER):
            some = missing[start : start + _TOGETHER]
            for at, losses in zip(some, super().losses([plans[at] for at in some]), strict=True):
                np.save(files[at], losses)
        self._count([plan for at, plan in enumerate(plans) if at not in missing], 1)
        return np.stack([np.load(file) for file in files])

    def slopes(self, units: Sequence[Unit], taken: np.ndarray) -> tuple[float, np.ndarray] | None:
        """As of the sample."""
        file = self._file("slopes", [units, taken.tolist()])
        if file.exists():
            self._count([units], RUNS_OF_SLOPES)
        else:
            found = super().slopes(units, taken)
            if found is None:
                return None
            np.save(file, np.array([found[0], *found[1]]))
        lost, *slopes = np.load(file)
        return float(lost), np.array(slopes)

    def _count(self, plans: Sequence[Sequence[Unit]], runs: float) -> None:
        """Count runs that were read as runs that were made."""
        for text in self.texts:
            text.passes += runs * text.experiment.passes([changes_of(plan) for plan in plans])

    def _file(self, what: str, asked: object) -> Path:
        return self.folder / f"{what}-{hashlib.sha256(repr(asked).encode()).hexdigest()[:24]}.npy"
