"""attn heads --over: a line per head with its course through the checkpoints, those that move most first."""

from collections.abc import Iterator

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.answers.checkpoints import Checkpoints, Course
from attn_cli.summaries.reducers.heads.statistics import STATISTICS, Statistic
from attn_cli.summaries.report import Report
from attn_cli.text import counted, visible
from attn_cli.views.drawing.bars import course_bars
from attn_cli.views.drawing.cells import packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation

_MANY_HEADS = 24  # of more heads a screen shows only so many of the first, unless --top says how many
_FIRST = 12


def draw(answer: Checkpoints, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """A statistic over checkpoints: the mean of heads and the largest, at the first and the last; then a line a head.

    The heads that move most (largest less smallest) come first, each with its number at every checkpoint as bars.
    """
    statistic = next(each for each in STATISTICS if each.name == answer.column)
    courses, names = answer.listed, list(map(visible, answer.names))
    if answer.count is None and len(courses) > _MANY_HEADS:
        courses = courses[:_FIRST]
    values = np.array([course.values for course in answer.courses])  # [heads, checkpoints]
    yield ""
    if np.isnan(values).all():
        yield Text(f"no head has a number for {statistic.heading} here", BOLD)
        return
    means = np.nanmean(values, axis=0)
    mean = f"mean of all heads {_number(means[0], statistic)} → {_number(means[-1], statistic)}"
    yield packed_text([f"{statistic.heading} in {counted(len(names), 'checkpoint')}, {names[0]} to {names[-1]}", mean,
                       _largest(answer, values, statistic)], screen, BOLD)  # fmt: skip
    yield ""
    yield Text(f"{_lead(answer)}  head   first    last   moved", BOLD)
    shown = np.array([course.values for course in courses])
    low, high = float(np.nanmin(shown)), float(np.nanmax(shown))
    for course in courses:
        yield _line(course, answer, statistic, screen, (low, high))
    if len(courses) < len(answer.courses):
        yield Text(f"{len(courses)} of {len(answer.courses)} heads; --top {len(answer.courses)} lists all", DIM)
    ends = f"courses from ▁ {_number(low, statistic)} to █ {_number(high, statistic)}"
    moved = f"moved: largest less smallest of the {counted(len(names), 'checkpoint')}"
    yield packed_text([f"{statistic.heading}: {statistic.caption.format(unit='token')}", moved, ends], screen, DIM)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """None: the next command would need one of the models."""
    return None


def _largest(answer: Checkpoints, values: np.ndarray, statistic: Statistic) -> str:
    """Where the largest number is: `largest 30.2 in 4.3 at step-900`."""
    head, at = np.unravel_index(int(np.nanargmax(values)), values.shape)
    place = answer.courses[int(head)].place
    number = _number(float(values[head, at]), statistic)
    return f"largest {number} in {place.layer}.{place.head} at {visible(answer.names[int(at)])}"


def _line(
    course: Course, answer: Checkpoints, statistic: Statistic, screen: Screen, ends: tuple[float, float]
) -> RenderableType:
    place, numbers = course.place, (course.values[0], course.values[-1], course.moved)
    lead = f"{place.stream:<{len(_lead(answer))}}" if _lead(answer) else ""
    line = f"{lead}{f'{place.layer}.{place.head}':>6}" + "".join(f"{_number(x, statistic):>8}" for x in numbers)
    room = screen.width - len(line) - 2
    return Text(f"{line}  {course_bars(course.values, room, *ends)}".rstrip()) if room > 1 else Text(line)


def _lead(answer: Checkpoints) -> str:
    """The heading of the streams, where there are several."""
    streams = {course.place.stream for course in answer.courses}
    return f"{'stream':<{max(map(len, streams)) + 1}}" if len(streams) > 1 else ""


def _number(value: float, statistic: Statistic) -> str:
    return "-" if np.isnan(value) else f"{value:.{statistic.digits}f}"
