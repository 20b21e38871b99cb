"""The usual mistakes with norms: another epsilon, 1 added to the gain or not, another kind, parts left out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from attn_cli.arrays import Array, namespace

_EPSILONS = (1e-5, 1e-6, 1e-8, 1e-12, 1e-3, 1e-2)  # of usual configurations, and what is left out of one


class WrongVectors(NamedTuple):
    """A wrong implementation of a step that maps vectors, such as a norm.

    name   in a word or two, with hyphens
    words  as a sentence
    make   a function from the right input `[..., width]` to the wrong output
    """

    name: str
    words: str
    make: Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Norm:
    """A norm: gain * (x, less its mean if `centred`) / sqrt(mean of squares + epsilon) + bias; RMSNorm or LayerNorm.

    stored  the gain as it is saved, which may be less by 1; None where it isn't known
    """

    gain: Array
    bias: Array | None
    epsilon: float
    centred: bool
    stored: Array | None = None

    def of(self, x: Array) -> Array:
        """Vectors x `[..., width]` normalised by this norm, in the same shape."""
        xp = namespace(x)
        if self.centred:
            x = x - xp.mean(x, axis=-1, keepdims=True)
        y = x / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + self.epsilon) * self.gain
        return y if self.bias is None else y + self.bias


def norm_mistakes(norm: Norm, where: str) -> Iterator[WrongVectors]:
    """The usual wrong implementations of a norm: missing, of the other kind, its gain, bias or epsilon wrong."""
    adds_one = norm.stored is not None and _about_one(norm.gain - norm.stored)

    def other(gain: Array, bias: Array | None, epsilon: float, centred: bool) -> Callable[[Array], Array]:
        return Norm(gain, bias, epsilon, centred).of

    right = (norm.bias, norm.epsilon, norm.centred)
    yield WrongVectors("norm-missing", f"{where} is missing", lambda x: x)
    if adds_one:
        yield WrongVectors("norm-plus-one-missing", f"{where}: its gain is 1 + the stored weight, the 1 is missing",
                           other(norm.stored, *right))  # fmt: skip
    else:
        yield WrongVectors("norm-plus-one-uninvited", f"{where}: 1 was added to its gain without being requested",
                           other(norm.gain + 1, *right))  # fmt: skip
    yield WrongVectors(
        "norm-kind",
        f"{where} is {'an RMS norm' if norm.centred else 'a layer norm'}, the model has "
        f"{'a layer norm' if norm.centred else 'an RMS norm'}",
        other(norm.gain, norm.bias, norm.epsilon, not norm.centred),
    )
    yield WrongVectors("norm-gain-missing", f"{where}: its gain is missing", other(norm.gain * 0 + 1, *right))
    if norm.bias is not None:
        yield WrongVectors(
            "norm-bias-missing", f"{where}: its bias is missing", other(norm.gain, None, norm.epsilon, norm.centred)
        )
    for epsilon in _EPSILONS:
        if abs(epsilon - norm.epsilon) > 1e-3 * norm.epsilon:
            yield WrongVectors("norm-epsilon", f"{where}: its epsilon is {epsilon:g}, the model's is {norm.epsilon:g}",
                               other(norm.gain, norm.bias, epsilon, norm.centred))  # fmt: skip


def _about_one(x: Array) -> bool:
    return bool((abs(x - 1) < 1e-3).all())
