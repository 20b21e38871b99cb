"""Cases that `attn bisect` is held to: tiny models with or without mistakes, and what comes out."""

from typing import Any, NamedTuple

import numpy as np

from attn_cli.dump import Dump, DumpArray
from attn_cli.model.stations import station
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.bisect.answer import Bisected, BisectRequest, bisect
from tests.architectures.tiny import tiny_model
from tests.bisect.families import NAMES, port_of, tiny
from tests.bisect.patched import PASS_NAMES, PASS_PLANTS, PLANTS, Stations, copied, quantised, seen
from tests.bisect.plain_decoder import Arrays, Port, Settings, planted

FAR = {"float32": 1e-3, "bfloat16": 0.2, "4-bit": 1.0}  # relative, from which on a mistake shows beyond rounding
_TOKENS = 24
_PADS = 3


class Made(NamedTuple):
    """The arrays of a dump with mistakes, and the names of those that they change, in their order.

    changed  with each whether it shows beyond rounding
    """

    arrays: Arrays
    changed: tuple[tuple[str, bool], ...]


def made_of(wrong: Arrays, right: Arrays, precision: str) -> Made | None:
    """Two dumps of the same engine, with mistakes and without; None where nothing shows."""
    changed: list[tuple[str, bool]] = []
    for name, x in wrong.items():
        if name in right:
            axes = tuple(range(1, x.ndim))
            size = np.sqrt((right[name] ** 2).mean(axes)) + 1e-9
            error = float((np.sqrt(((x - right[name]) ** 2).mean(axes)) / size).max())
            if error > 0:
                changed.append((name, error > FAR[precision]))
    return Made(wrong, tuple(changed)) if any(is_clear for _, is_clear in changed) else None


def source_of(model: Any, name: str) -> ModelSource:
    """A tiny model with its head as a source."""
    stack = getattr(model, model.base_model_prefix, model)
    about = {"model": name, "type": name}
    return ModelSource(LoadedModel(stack, None, about, Origin(name, name, OriginOptions()), model))


def stations_of(model: Any, ids: np.ndarray) -> Stations:
    """The stations that are the input or output of a module, in a model without mistakes."""
    sites = source_of(model, type(model).__name__).reference()._found(ids.tolist())
    paths = {module: path for path, module in model.named_modules()}
    found: Stations = {}
    for module, runs in sites.of.items():
        for site in runs[0]:
            name = f"{site.layer}.{site.kind}" if station(site.kind).is_of_layer else site.kind
            found.setdefault(name, (paths[module], site.given))
    return found


def verdict(model: Any, ids: np.ndarray, arrays: Arrays, precision: str) -> Bisected:
    """The product's answer to a dump."""
    made = tuple(DumpArray(name, x.shape, "float32", lambda x=x: x) for name, x in arrays.items())  # type: ignore[misc]
    request = BisectRequest("4-bit" if precision == "4-bit" else None)
    reference = source_of(model, type(model).__name__).reference()
    return bisect(reference, ids.tolist(), Dump("dump", made, tuple(ids.tolist())), request, lambda words: None)


class TinyCase:
    """A tiny type of transformers with mistakes in its modules; the dump is what these returned.

    way  in which the right model runs: "" or "sdpa", "padded", "own 4-bit" (both sides with the same weights)
    """

    def __init__(self, name: str, plants: tuple[str, ...], precision: str, seed: int, way: str = "") -> None:
        self.plants, self.precision, self.way = plants, precision, way
        self.model = tiny_model(name, "tiny")
        self.ids = np.random.default_rng(seed).integers(0, self.model.config.get_text_config().vocab_size, _TOKENS)
        self.stations = stations_of(self.model, self.ids)
        if way == "own 4-bit":
            quantised(self.model)

    def dump(self) -> Made | None:
        """The mistaken arrays; None where the mistakes change nothing."""
        port = copied(self.model)
        if self.precision == "4-bit":
            quantised(port)
        if self.way == "sdpa":
            port.set_attn_implementation("sdpa")
        pads = _PADS if self.way == "padded" else 0
        right = seen(copied(port), self.stations, self.ids, precision=self.precision, pads=pads)
        if not self.plants:
            return Made(right, ())
        of_pass = [plant for plant in self.plants if plant in PASS_PLANTS]
        for plant in self.plants:
            if plant in PLANTS and not PLANTS[plant][1](port):
                return None
        wrong = seen(port, self.stations, self.ids, of_pass[0] if of_pass else "", self.precision)
        if len(self.plants) > 1 and not all(self._shows(plant, right) for plant in self.plants):
            return None
        return made_of(wrong, right, self.precision)

    def _shows(self, plant: str, right: Arrays) -> bool:
        """True if the mistake alone changes what is dumped."""
        port = copied(self.model)
        if plant in PLANTS:
            PLANTS[plant][1](port)
        alone = seen(port, self.stations, self.ids, plant if plant in PASS_PLANTS else "", self.precision)
        return made_of(alone, right, self.precision) is not None

    def verdict(self, arrays: Arrays) -> Bisected:
        """The product's answer."""
        return verdict(self.model, self.ids, arrays, self.precision)

    def names(self) -> list[set[str]]:
        """What each mistake may be called."""
        found = [PASS_NAMES[plant] if plant in PASS_PLANTS else PLANTS[plant][0] for plant in self.plants]
        return [{name, "positions+1"} if plant == "positions" else {name}
                for name, plant in zip(found, self.plants, strict=True)]  # fmt: skip


class PortCase:
    """A tiny model of a family, and its port to plain NumPy with mistakes."""

    def __init__(self, family: str, mistakes: tuple[str, ...], precision: str, seed: int) -> None:
        self.mistakes, self.precision = mistakes, precision
        self.model = tiny(family, seed % 5)
        self.weights, settings = port_of(family, self.model)
        self.settings = Settings(**{**vars(settings), "precision": precision})
        self.ids = np.random.default_rng(seed).integers(0, 64, _TOKENS)

    def dump(self) -> Made | None:
        """The mistaken arrays; None where the mistakes change nothing."""
        right = Port(self.weights, self.settings).run(self.ids)
        if not self.mistakes:
            return Made(right, ())
        if len(self.mistakes) > 1 and not all(self._wrong((each,), right) for each in self.mistakes):
            return None
        return self._wrong(self.mistakes, right)

    def _wrong(self, mistakes: tuple[str, ...], right: Arrays) -> Made | None:
        return made_of(Port(self.weights, planted(self.settings, *mistakes)).run(self.ids), right, self.precision)

    def verdict(self, arrays: Arrays) -> Bisected:
        """The product's answer."""
        return verdict(self.model, self.ids, arrays, self.precision)

    def names(self) -> list[set[str]]:
        """What each mistake may be called."""
        return [set(NAMES.get(mistake, (mistake,))) for mistake in self.mistakes]


def is_placed(answer: Bisected, made: Made) -> bool:
    """True if the first wrong array is where the mistake shows first, of those arrays that have a place."""
    stations = {one.placed.array.name: one.placed.at for one in answer.judged}
    changed = [(name, is_clear) for name, is_clear in made.changed if name in stations]
    count = next((at for at, (_, is_clear) in enumerate(changed) if is_clear), 0) + 1
    return answer.first is not None and answer.first.placed.at in {stations[name] for name, _ in changed[:count]}


def is_named(answer: Bisected, wanted: list[set[str]]) -> bool:
    """True if every planted mistake is among those that are named."""
    found = [made.planted.name for made in (answer.cause.mistakes if answer.cause else ())]
    names = [*found, *(part for name in found for part in name.split("+"))]
    return all(any(name.startswith(tuple(each)) for name in names) for each in wanted)
