"""Texts from seeds of which it is known, or can be found out, what the next word comes from."""

import random
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
_HEADINGS = [
    "Notes from the harbour office.",
    "What we know about the village.",
    "Read the notes.",
    "Facts of the day:",
]


class Lookup(NamedTuple):
    """A heading, eight facts, a question and the begun answer, a line each; line `used`, from 0, has the answer."""

    text: str
    used: int
    answer: str


def lookup(seed: int) -> Lookup:
    """The lookup of that seed: which facts there are, in which order, with which words, and which is asked about."""
    chance = random.Random(seed)
    facts = chance.sample(FACTS, 8)
    words = [chance.choice(fact.words) for fact in facts]
    lines = [fact.says.format(word) for fact, word in zip(facts, words, strict=True)]
    used = chance.randrange(8)
    asked = facts[used]
    text = [chance.choice(_HEADINGS), *lines, f"Question: {asked.asks}", f"Answer: {asked.begins}"]
    return Lookup("\n".join(text), used + 1, words[used])


_TOLD = [
    ("In the harbour a boat called the {} was waiting.", "They went down to the harbour and saw the boat called the",
     ["Albatross", "Margaret", "Swallow", "Victory"]),
    ("Her brother {} had gone to sea as a boy.", "That evening a letter came from her brother",
     ["Thomas", "Edmund", "Walter", "Stephen"]),
    ("On the table stood a jar of {} that nobody had opened.", "Then the child ran in and opened the jar of",
     ["honey", "pickles", "mustard", "cherries"]),
    ("The road to {} was still under snow.", "In spring they took at last the road to",
     ["Granada", "Salzburg", "Toledo", "Kiev"]),
    ("The dog, an old hound called {}, slept beside the stove.", "When the door opened they all called the dog:",
     ["Rusty", "Bella", "Caesar", "Pepper"]),
    ("The innkeeper played the {} every night.", "When the guests were tired the innkeeper took up his",
     ["violin", "trumpet", "guitar", "accordion"]),
    ("The mayor had promised a new bridge before {}.", "The people told the mayor that the bridge must stand by",
     ["Christmas", "Easter", "winter", "harvest"]),
    ("In the garden grew a single {} tree.", "In summer the children sat in the garden under the",
     ["walnut", "cherry", "lemon", "plum"]),
    ("The teacher collected {} and pinned them to the wall.", "On the wall of the school they saw the teacher's",
     ["butterflies", "stamps", "maps", "beetles"]),
    ("The village was known for its {}.", "Visitors came from far away to the village because of its",
     ["cheese", "bells", "wine", "carpets"]),
]  # fmt: skip
_AROUND = [
    "The winter had been long and grey.", "Nobody in the street knew what to make of it.",
    "The clock in the hall had stopped years ago.", "There was little money in the house.",
    "Rain fell on the roofs until the morning.", "It was said that the old days had been better.",
]  # fmt: skip


def prose(seed: int) -> str:
    """Seven sentences of a tale, and the start of an eighth that takes up one of them, never the first."""
    chance = random.Random(seed)
    told = chance.sample(_TOLD, 4)
    taken_up = told[0][1]
    sentences = [says.format(chance.choice(words)) for says, _, words in told]
    rest = [*sentences[1:], *chance.sample(_AROUND, 3)]
    chance.shuffle(rest)
    rest.insert(chance.randrange(1, 7), sentences[0])
    return " ".join([*rest, taken_up])
