"""A story as an object of JSON, and back: what a second look tells without the model."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from attn_cli.errors import LoadError
from attn_cli.summaries.told.story import Story


def told_document(story: Story | None, rows: Sequence[int]) -> dict[str, Any]:
    """JSON that a recording keeps of the words and heads that an answer needs, by a name made of `rows`."""
    return {_name(rows): None if story is None else _document(story)}


def told_story(document: Mapping[str, Any], rows: Sequence[int]) -> Story | None:
    """Which words and heads an answer needs, from a recording's JSON; None where there was nothing to tell."""
    try:
        story: Story | None = _value(Story | None, document[_name(rows)])
        return story
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LoadError(
            f"what was told of this text can't be read: {error}", "attn env --clear-cache removes it"
        ) from None


def _name(rows: Sequence[int]) -> str:
    return ",".join(map(str, rows))


def _document(value: Any) -> Any:
    if _has_fields(value):
        return {name: _document(getattr(value, name)) for name in _types(value.__class__)}
    return [_document(each) for each in value] if isinstance(value, tuple) else value


def _value(kind: Any, document: Any) -> Any:
    """The value of a type that `document` stands for; ValueError or TypeError where it stands for none."""
    if isinstance(kind, UnionType):
        (other,) = (each for each in get_args(kind) if each is not NoneType)
        return None if document is None else _value(other, document)
    if _has_fields(kind):
        types = _types(kind)
        if document.keys() != types.keys():
            raise ValueError(f"{', '.join(document)} are not the fields of {kind}")
        return kind(**{name: _value(each, document[name]) for name, each in types.items()})
    if get_origin(kind) is tuple:
        first, *others = get_args(kind)
        kinds = [first] * len(document) if others == [Ellipsis] else [first, *others]
        return tuple(_value(each, item) for each, item in zip(kinds, document, strict=True))
    if isinstance(kind, type) and issubclass(kind, tuple):  # a named one
        return kind(*(_value(each, item) for each, item in zip(_types(kind).values(), document, strict=True)))
    if type(document) is int and kind is float:
        return float(document)
    if type(document) is not kind:
        raise ValueError(f"{document!r} is no {kind}")
    return document


def _has_fields(value: Any) -> bool:
    return is_dataclass(value)


@cache
def _types(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind) if each.compare} if is_dataclass(kind) else hints
