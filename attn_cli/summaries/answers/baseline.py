"""What the answers of experiments tell of the run without changes."""

from typing import Any

from attn_cli.model.intervention import Experiment
from attn_cli.summaries.answer import Table


def baseline(experiment: Experiment | None) -> tuple[Table, dict[str, Any]]:
    """The tokens of the answer, and how it was run: columns of the tables `answer` and `run`; without one, of none."""
    run = dict.fromkeys(("probability", "generated", "vector", "run_mode", "no_cache_reason", "noise"))
    if experiment is None:
        return Table({}), run | {"no_cache_reason": ""}
    run |= {name: getattr(experiment, name) for name in ("run_mode", "no_cache_reason", "noise")}
    target = experiment.target
    if target is None:
        return Table({}), run | {"vector": experiment.vector}
    rows = zip(target.rows, target.tokens, strict=True)
    answer = Table.of({"row": row, "id": token.id, "token": token.text} for row, token in rows)
    return answer, run | {"probability": target.probability, "generated": target.generated}
