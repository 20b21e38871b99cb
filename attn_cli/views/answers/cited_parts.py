"""The origin of an answer in a sentence."""

from collections.abc import Iterator
from textwrap import wrap

from attn_cli.summaries.parts.answer import PartsRead
from attn_cli.summaries.parts.citations import Citation, tokens_needing
from attn_cli.summaries.parts.hidden import NEEDED_BITS
from attn_cli.text import counted, cut, cut_after_word, visible

_ANSWER, _PART = 48, 40  # characters of an answer, and of a part's text, in a sentence
_LEAST_WORD, _BEFORE = 3, 4  # characters of a word of the answer that a part is shown by, and of what is before it
_LEAD = 18  # characters of the part's beginning, where what is shown is further on
_POWER = 100  # bits from which on a factor is written as a power alone
_OTHERS = 3  # parts that a sentence names beside the first


def verdict_lines(answer: PartsRead, width: int) -> Iterator[str]:
    """One sentence: the parts that the answer needed; then the sinks that break the model if hidden."""
    citation = answer.citation
    if citation is None:
        return
    if answer.context:
        yield from wrap(_verdict(answer, citation), width)
    for read in sorted(answer.read.parts, key=lambda read: answer.effects[read.number])[:_OTHERS]:
        bits = answer.effects[read.number]
        if read.is_sink and bits <= -NEEDED_BITS:
            name = f'"{visible(read.part.text(answer.prompt.text).strip()) or read.sinks[0].token.text}"'
            yield cut(f"sink     {name} {read.part.tokens[0]}: hiding it breaks the model (2^{-bits:.1f})", width)


def _verdict(answer: PartsRead, citation: Citation) -> str:
    said = f'"{visible(_needing(answer, citation))}"'
    if citation.either:
        names = " and ".join(_named(answer, part) for part in citation.either)
        without = _times(citation.without or 0.0)
        return f"{said} comes from {names}, which replace each other: both hidden, it is {without} less likely"
    if citation.needed:
        (first, bits), *others = citation.needed
        verb = "needs" if answer.cut == "words" else "comes from"
        sentence = f"{said} {verb} {_named(answer, first)}: hidden, it makes the answer {_odds(bits)} less likely"
        more = [f"{_short(answer, part)} {_times(value)}" for part, value in others[:_OTHERS]]
        more += [counted(len(others) - _OTHERS, "more part")] if len(others) > _OTHERS else []
        return sentence + (f"; {', '.join(more)}" if more else "")
    if citation.bits is None:
        return f"{said} needs no part before the question"
    if citation.bits > -1:
        return (
            f"{said} needs none of the parts: with all of them hidden its log2 p changes by {citation.bits:+.2f}. "
            "It comes from the question, or from what the model learned"
        )
    together = _times(citation.bits)
    return f"{said} needs several parts together: all hidden, it is {together} less likely; one by one, at most 2 times"


def _needing(answer: PartsRead, citation: Citation) -> str:
    """The words of the answer that lose most with the only part hidden that it needs; else its beginning."""
    hidden, generated, whole = answer.hidden, answer.prompt.generated, citation.text.strip()
    text = cut_after_word(generated.quote if generated and generated.text.strip() == whole else whole, _ANSWER)
    if len(citation.needed) != 1 or hidden is None or hidden.target is None or not hidden.target.generated:
        return text
    tokens = hidden.target.tokens
    needing = tokens_needing(hidden.outcomes[citation.needed[0][0]], len(tokens))
    words = {id(token.word) for token in tokens[needing] if token.word is not None}
    own = [token for at, token in enumerate(tokens) if at in range(len(tokens))[needing] or id(token.word) in words]
    start, end = own[0].start, own[-1].end
    found = "" if start is None or end is None else answer.prompt.text[start:end].strip()
    goes_on = any(map(str.isalnum, answer.prompt.text[end:]))
    return cut_after_word(f"{found} …" if goes_on else found, _ANSWER) if found else text


def _named(answer: PartsRead, number: int) -> str:
    part = answer.read.parts[number].part
    text = visible(_excerpt(" ".join(part.text(answer.prompt.text).split()), answer))
    return f'"{text}"' if answer.cut == "words" else f'{part.name} ("{text}")'


def _excerpt(text: str, answer: PartsRead) -> str:
    """The beginning of a part's text, and the words around the answer's first word in it where that is further on."""
    words = answer.citation.text.split() if answer.citation else []
    found = next((at for word in words if len(word) >= _LEAST_WORD and (at := text.find(word)) >= 0), 0)
    if found + _LEAST_WORD <= _PART:
        return cut(text, _PART)
    begin = text.rfind(" ", 0, found - _BEFORE) + 1
    return f"{cut(text, _LEAD)} {cut(text[begin:], _PART - _LEAD)}"


def _short(answer: PartsRead, number: int) -> str:
    return _named(answer, number) if answer.cut == "words" else visible(answer.read.parts[number].part.name)


def _odds(bits: float) -> str:
    return _times(bits) if bits <= -_POWER else f"{_times(bits)} (2^{-bits:.2f})"


def _times(bits: float) -> str:
    """The factor by which a change of log2 p makes something less likely.

    >>> _times(-12.2), _times(-1.5), _times(-21.5)
    ('4,700 times', '2.8 times', '3 million times')
    """
    if bits <= -_POWER:
        return f"2^{-bits:.0f} times"
    times = 2.0**-bits
    for unit, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if times >= unit:
            return f"{float(f'{times / unit:.2g}'):g} {name} times"
    return f"{times:.1f} times" if times < 10 else f"{float(f'{times:.2g}'):,.0f} times"
