"""How a task writes, unless it is told otherwise, and the same as a published file says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zoo.described import Described
from zoo.generation import publish, published
from zoo.generation.beam import Beam
from zoo.generation.rules import Force, ForceLast, OneOf, Rule, SuppressFirst
from zoo.generation.search import Greedy, Sample, Search
from zoo.settings import Config

LENGTH = 128


class Generation(Described):
    """At most ``length`` tokens, by a ``search`` under ``rules``; besides the tokenizer's own end of a sequence, the
    ids ``ends`` end one, and the strings ``stops``.

    A decoder with a source reads the ids ``begin`` first, such as Whisper's language, of which ``languages`` are those
    that there are.  ``last`` are ids one of which is the last token of a text that becomes as long as it may.
    """

    def __init__(
        self,
        length: int = LENGTH,
        search: Search = Greedy(),
        rules: Sequence[Rule] = (),
        ends: Sequence[int] = (),
        stops: Sequence[str] = (),
        begin: Sequence[int] = (),
        last: Sequence[int] = (),
        languages: Mapping[str, int] | None = None,
    ):
        if length < 1:
            raise ValueError(f"length={length} writes nothing; 1 is the least")
        self.length, self.search, self.last, self.languages = length, search, tuple(last), dict(languages or {})
        self.rules, self.ends, self.stops, self.begin = tuple(rules), tuple(ends), tuple(stops), tuple(begin)

    def rules_for(self, length: int, begun: bool = False) -> tuple[Rule, ...]:
        """Those of texts of at most so many tokens, and where it is given how a text begins, those after that."""
        rules = after_beginning(self.rules) if begun else self.rules
        return (*rules, *([ForceLast(length, self.last)] if self.last else []))


def after_beginning(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Those that are left where the beginning is given, which some force otherwise and some wait for."""
    left = [rule for rule in rules if not isinstance(rule, (Force, OneOf))]
    return tuple(SuppressFirst(rule.tokens) if isinstance(rule, SuppressFirst) else rule for rule in left)


SEARCHES: dict[str, type[Search]] = {"Greedy": Greedy, "Sample": Sample, "Beam": Beam}


def read(config: Config, generation: Config | None) -> Generation:
    """A config.json, and the generation_config.json beside it where there is one.  Raises ValueError for values that
    cannot be meant; what cannot be followed is told in a warning."""
    wishes, length = published.read(config, generation), LENGTH
    if wishes.length is not None:
        length = wishes.length
    elif wishes.total is not None and wishes.start is not None:  # a decoder with a source begins with these
        length = max(1, wishes.total - 1 - len(wishes.begin))
    search = SEARCHES[wishes.search](**wishes.arguments)
    rest = (wishes.rules, wishes.ends, wishes.stops, wishes.begin, wishes.last, wishes.languages)
    return Generation(length, search, *rest)


def write(generation: Generation, start: int | None) -> Config:
    """The inverse: a generation_config.json, which says the id of the ``start`` of a decoder with a source.  Raises
    ValueError for what it has no words for."""
    search, length = generation.search, None if generation.length == LENGTH else generation.length
    arguments = {word: value for word, value in (search._arguments or {}).items() if word != "seed"}
    wishes = published.Wishes(
        length=length,
        search=type(search).__name__,
        arguments=arguments,
        rules=generation.rules,
        ends=generation.ends,
        last=generation.last,
        stops=generation.stops,
        start=start,
        begin=generation.begin,
        languages=generation.languages,
    )
    return publish.write(wishes)
