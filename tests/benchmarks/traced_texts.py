"""Prompts from seeds in three styles and of any length, in which facts stand among sentences that nobody asks about."""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.benchmarks.generated_texts import FACTS

STYLES = ("notes", "documents", "messages")
SIZES = [(150, 6), (400, 4), (1000, 2), (2000, 1)]  # tokens, and how many prompts of each style
LONGEST = 6000  # tokens of one prompt
MORE = (("notes", 400, 4), ("messages", 400, 4))  # in place of two whose answers need no part of the text
FACTS_TOLD = 5
Chat = Callable[[Sequence[dict[str, str]]], str]

_WHO = ["The baker", "An old sailor", "The teacher", "A girl from the mill", "The postman", "My cousin", "The miller",
        "A traveller", "The watchman", "Her neighbour", "The young painter", "A farmer"]  # fmt: skip
_DID = ["walked to the bridge", "mended a fence", "counted the sheep", "waited for the coach", "sang in the street",
        "carried two baskets", "swept the yard", "lost a glove", "looked at the clouds", "wrote a long letter",
        "bought a pound of flour", "painted the door"]  # fmt: skip
_WHEN = ["before noon", "after the rain", "in the evening", "as always", "with some effort", "for the third time",
         "without a word", "while the dogs barked", "on the way home", "as the bells rang"]  # fmt: skip
_TOOLS = ["search", "calendar", "register", "archive", "ledger", "almanac", "bulletin", "inventory"]


class Case(NamedTuple):
    """One prompt: its style, about how many tokens it has, and its seed."""

    style: str
    tokens: int
    seed: int

    @property
    def name(self) -> str:
        """As lines of the benchmark begin."""
        return f"{self.style} {self.tokens} {self.seed}"


class TracedText(NamedTuple):
    """A prompt, how it is cut, and its messages where it is a chat."""

    text: str
    cut: str
    messages: list[tuple[str, str]] | None = None


class Claims(NamedTuple):
    """Five documents, an answer of two sentences, and the documents that each of them comes from, from 0."""

    documents: list[str]
    question: str
    answer: str
    sources: tuple[int, int]


def cases() -> list[Case]:
    """Forty prompts whose answers need a part, and two that need none; the longest last."""
    found = [Case(*more) for more in MORE]
    found += [Case(style, tokens, at) for tokens, count in SIZES for at in range(count) for style in STYLES]
    return [*sorted(found, key=lambda case: case.tokens), Case("documents", LONGEST, 0)]


def traced_text(case: Case, chat: Chat) -> TracedText:
    """The prompt of a case; `chat` makes the text of messages."""
    chance = random.Random(f"{case.style} {case.tokens} {case.seed}")
    facts = chance.sample(FACTS, FACTS_TOLD)
    asked = chance.choice(facts)
    told = [fact.says.format(chance.choice(fact.words)) for fact in facts]
    around = max(0, case.tokens - 110 - 14 * FACTS_TOLD) // (11 * FACTS_TOLD)  # sentences beside each fact
    pieces = [_among(line, around, chance) for line in told]
    if case.style == "notes":
        lines = ["Notes of the week.", *pieces, f"Question: {asked.asks}\nAnswer: {asked.begins}"]
        return TracedText("\n\n".join(lines), "paragraphs")
    if case.style == "documents":
        text = "\n\n".join([*pieces, f"Answer from the documents: {asked.asks}"])
        messages = [("user", text)]
        return TracedText(chat(_roles(messages)), "paragraphs", messages)
    messages = [("system", "Answer from what the tools return.")]
    messages += [("tool", f"{name}: {piece}") for name, piece in zip(_TOOLS, pieces, strict=False)]
    messages += [("user", f"{asked.asks[0].upper()}{asked.asks[1:]}")]
    return TracedText(chat(_roles(messages)), "roles", messages)


def claims(seed: int) -> Claims:
    """The documents and the answer of that seed."""
    chance = random.Random(f"claims {seed}")
    facts = chance.sample(FACTS, FACTS_TOLD)
    words = [chance.choice(fact.words) for fact in facts]
    documents = [_among(fact.says.format(word), 3, chance) for fact, word in zip(facts, words, strict=True)]
    first, second = chance.sample(range(FACTS_TOLD), 2)
    answer = " ".join(f"{facts[at].begins} {words[at]}." for at in (first, second))
    asks = f"Question: {facts[first].asks[:-1]}, and {facts[second].asks}"
    return Claims(documents, asks, answer, (first, second))


def _among(fact: str, around: int, chance: random.Random) -> str:
    """A paragraph of a fact and so many other sentences."""
    sentences = [f"{chance.choice(_WHO)} {chance.choice(_DID)} {chance.choice(_WHEN)}." for _ in range(around)]
    sentences.insert(chance.randint(0, len(sentences)), fact)
    return " ".join(sentences)


def _roles(messages: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in messages]
