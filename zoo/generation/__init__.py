"""Writing token by token, whatever the tokens are: searches, rules, ends, and what came out."""

from zoo.generation.beam import Beam
from zoo.generation.draft import Draft
from zoo.generation.lookup import Lookup
from zoo.generation.proposals import Drafter
from zoo.generation.rules import (
    Force,
    ForceLast,
    MinLength,
    MinTotal,
    NoRepeat,
    OneOf,
    Renormalise,
    RepetitionPenalty,
    Rule,
    Suppress,
    SuppressFirst,
)
from zoo.generation.search import Greedy, Sample, Search
from zoo.generation.settings import Generation
from zoo.generation.speculative import Speculative
from zoo.generation.writer import Writer
from zoo.generation.written import Written

__all__ = [
    "Beam",
    "Draft",
    "Drafter",
    "Force",
    "ForceLast",
    "Generation",
    "Greedy",
    "Lookup",
    "MinLength",
    "MinTotal",
    "NoRepeat",
    "OneOf",
    "Renormalise",
    "RepetitionPenalty",
    "Rule",
    "Sample",
    "Search",
    "Speculative",
    "Suppress",
    "SuppressFirst",
    "Writer",
    "Written",
]
