"""Two scans against each other: which heads differ beyond chance."""

from attn_cli.errors import InputError
from attn_cli.scans.kept.results import ScanResults
from attn_cli.scans.sums.blocks import paired
from attn_cli.summaries.reducers.heads.statistics import STATISTICS
from attn_cli.summaries.scanned.differences import Paired, ScanDifferences, differences
from attn_cli.text import excerpt


def differences_of(
    one: ScanResults, other: ScanResults, statistic: str | None = None, shown: int | None = None
) -> ScanDifferences:
    """The differences of two scans: every statistic of every head that both have, and the kinds that changed."""
    names = [each.name for each in STATISTICS] if statistic is None else [statistic]
    kinds = {head.place: head.kind_name for head in other.heads}
    common = [head for head in one.heads if head.place in kinds]
    if not common:
        raise InputError(f"the scans in {excerpt(one.folder)} and {excerpt(other.folder)} have no head in common",
                         "scans of models of one architecture can be compared")  # fmt: skip
    alone = len(one.heads) + len(other.heads) - 2 * len(common)
    renamed = tuple(
        (head.place, head.kind_name, kinds[head.place]) for head in common if head.kind_name != kinds[head.place]
    )
    same = one.progress.get("content", one) == other.progress.get("content")
    return ScanDifferences(
        one.folder, other.folder, one.corpus, other.corpus, str(other.about["model"]),
        differences(one.heads, other.heads, names, _paired(one, other) if same else None), renamed, alone, same, shown,
    )  # fmt: skip


def _paired(one: ScanResults, other: ScanResults) -> Paired:
    theirs = other.blocks
    errors = {key: paired(blocks, theirs[key]) for key, blocks in one.blocks.items() if key in theirs}
    return {key: (float(error), float(freedom)) for key, (error, freedom) in errors.items()}
