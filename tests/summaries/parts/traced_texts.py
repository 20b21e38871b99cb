"""Prompts from seeds in three styles and of any length, in which facts stand among sentences that nobody asks about."""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

_NAMES = ["Solomon", "Oscar", "Hugo", "Felix", "Bruno", "Clara", "Nadia", "Paula", "Otto", "Ingrid"]
_CITIES = ["Lisbon", "Vienna", "Oslo", "Milan", "Prague", "Dublin", "Athens", "Cairo", "Lima", "Paris"]
_COLOURS = ["green", "red", "blue", "yellow", "black", "white", "grey", "purple", "brown", "orange"]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_TREES = ["walnut", "cherry", "lemon", "plum", "apple", "pear", "fig", "olive"]
_TOOLS = ["violin", "trumpet", "guitar", "piano", "flute", "drum"]
_GOODS = ["honey", "cheese", "wine", "bells", "carpets", "coffee", "salt", "silk"]
_ROOMS = ["kitchen", "library", "garage", "attic", "chapel", "cellar"]
_MONTHS = ["January", "March", "April", "June", "August", "October"]
_NUMBERS = ["three", "four", "five", "six", "seven", "eight", "nine", "ten"]
STYLES = ("notes", "documents", "messages")
FACTS_TOLD = 5
Chat = Callable[[Sequence[dict[str, str]]], str]

_WHO = ["The baker", "An old sailor", "The teacher", "A girl from the mill", "The postman", "My cousin", "The miller",
        "A traveller", "The watchman", "Her neighbour", "The young painter", "A farmer"]  # fmt: skip
_DID = ["walked to the bridge", "mended a fence", "counted the sheep", "waited for the coach", "sang in the street",
        "carried two baskets", "swept the yard", "lost a glove", "looked at the clouds", "wrote a long letter",
        "bought a pound of flour", "painted the door"]  # fmt: skip
_WHEN = ["before noon", "after the rain", "in the evening", "as always", "with some effort", "for the third time",
         "without a word", "while the dogs barked", "on the way home", "as the bells rang"]  # fmt: skip
_CALLED = ["search", "calendar", "register", "archive", "ledger", "almanac", "bulletin", "inventory"]


class Fact(NamedTuple):
    """A fact with a place for its word, a question for that word, the answer as far as it is given, and the words."""

    says: str
    asks: str
    begins: str
    words: list[str]


FACTS = [
    Fact("The clerk keeps a parrot called {}.", "what is the name of the parrot?", "The parrot is called", _NAMES),
    Fact("The lamp on the north pier is {}.", "what colour is the lamp?", "The lamp is", _COLOURS),
    Fact("The ferry goes to {}.", "where does the ferry go?", "The ferry goes to", _CITIES),
    Fact("The museum is closed on {}.", "when is the museum closed?", "The museum is closed on", _DAYS),
    Fact("The map is kept in the {}.", "where is the map?", "The map is in the", _ROOMS),
    Fact("The tree in the yard is a {} tree.", "what is the tree in the yard?", "The tree in the yard is a", _TREES),
    Fact("The doctor plays the {}.", "what does the doctor play?", "The doctor plays the", _TOOLS),
    Fact("The shop in the square sells {}.", "what does the shop sell?", "The shop sells", _GOODS),
    Fact("The fair is held in {}.", "when is the fair held?", "The fair is held in", _MONTHS),
    Fact("There are {} boats in the harbour.", "how many boats are there?", "The number of boats is", _NUMBERS),
]


class Case(NamedTuple):
    """One prompt: its style, about how many tokens it has, and its seed."""

    style: str
    tokens: int
    seed: int


class TracedText(NamedTuple):
    """A prompt, how it is cut, and its messages where it is a chat."""

    text: str
    cut: str
    messages: list[tuple[str, str]] | None = None


def traced_text(case: Case, chat: Chat) -> TracedText:
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
    messages += [("tool", f"{name}: {piece}") for name, piece in zip(_CALLED, pieces, strict=False)]
    messages += [("user", f"{asked.asks[0].upper()}{asked.asks[1:]}")]
    return TracedText(chat(_roles(messages)), "roles", messages)


def _among(fact: str, around: int, chance: random.Random) -> str:
    sentences = [f"{chance.choice(_WHO)} {chance.choice(_DID)} {chance.choice(_WHEN)}." for _ in range(around)]
    sentences.insert(chance.randint(0, len(sentences)), fact)
    return " ".join(sentences)


def _roles(messages: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in messages]
