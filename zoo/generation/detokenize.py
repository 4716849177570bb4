"""Text as it is decided, token by token, without a broken character and without what a stop string cuts off."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.tokenizers import BPE, Subword, TextTokenizer

BROKEN = "\N{REPLACEMENT CHARACTER}"  # what decoding makes of bytes that are no character
CONTEXT = 16  # tokens that are decoded again before new ones, for their spaces and bytes
LONGEST = 32  # tokens after which older ones are let go
LETTERS = 4  # that a context has at least: more than an unfinished character has bytes, and than is stripped at a start
SINGLE = [f"<0x{byte:02X}>" for byte in range(256)]  # bytes, in a vocabulary that has characters for the most part
ENDS_SINGLE = [[byte] + [0x80] * more for more in range(3) for byte in (0x80, 0xBF)]
ENDS = "\u0122\u00bf"  # the bytes 0x80 and 0xBF in a vocabulary of bytes (Radford et al. 2019)


class TextStream:
    """The text that new tokens add after a prompt, (T,) ids, in pieces that stay as they are.

    All pieces together are what ``decode`` makes of prompt and tokens at once, from the first letter on that differs
    from the prompt's own text.  A character that lacks bytes is held back until it is whole or cannot become so; so is
    what may be the beginning of one of ``stops``.  The stop string that is complete first ends the text before its
    first letter; of several that are complete together it is the longest.  A token costs the same in a long text.

    Vocabularies with tokens for single bytes beside others (LLaMA) decode a run of them as a whole, where one wrong
    byte breaks all, so a run is held back until it is over; one of more than 32 tokens is not waited for.
    Raises ValueError for an empty stop string.
    """

    def __init__(self, tokenizer: TextTokenizer, prompt: Tensor | None = None, stops: Sequence[str] = ()):
        self._decoding, self._stops = Decoding(tokenizer), Stops(stops)
        self._pieces: list[str] = []
        ids = [] if prompt is None else prompt.tolist()
        self._window, self._settled = self._beginning(ids)  # tokens, and letters of their text that stay
        self._prompt = self._decoding.text(self._window)  # as long as it may differ from what becomes of it
        self._given = self._settled  # letters of the window's text that were given out, or are the prompt's

    @property
    def stopped(self) -> bool:
        """Did one of the stop strings stand in the text?"""
        return self._stops.found

    @property
    def text(self) -> str:
        """All that was given out so far."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def push(self, ids: Sequence[int]) -> str:
        """The text that is sure with these next tokens."""
        if self.stopped:
            return ""
        piece = self._stops.passed("".join([self._next(token) for token in ids]))
        self._pieces.append(piece)
        return piece

    def finish(self) -> str:
        """The rest, where no more tokens come."""
        text = self._decoding.text(self._window)
        piece = self._stops.passed(self._new(text, len(text))) + self._stops.rest()
        self._pieces.append(piece)
        return piece

    def _next(self, token: int) -> str:
        self._window.append(token)
        text = self._decoding.text(self._window)
        late = self._decoding.runs and len(self._window) >= 2 * LONGEST  # in a run without an end
        if self._decoding.whole(self._window, text) or (late and not text.endswith(BROKEN)):
            piece, self._settled = self._new(text, len(text)), len(text)
            if len(self._window) >= LONGEST:
                self._let_go(late)
            return piece
        if self._decoding.runs:
            return self._new(text, self._settled)
        return self._new(text, len(text[:-1].rstrip()))  # at the end of a text, CLIP drops spaces that stood there

    def _new(self, text: str, sure: int) -> str:
        """What was not given out of the first ``sure`` letters of the window's text."""
        if self._prompt:
            self._given = max(self._given, shared(self._prompt, text[:sure]))
            self._prompt = "" if sure >= len(self._prompt) else self._prompt
        piece, self._given = text[self._given : sure], max(self._given, sure)
        return piece

    def _let_go(self, late: bool) -> None:
        """Keep the last tokens only, where others decode the same after them as after all."""
        for size in range(CONTEXT, CONTEXT + LETTERS):  # if they are bytes, one of these begins with a character
            context = self._window[-size:]
            text = self._decoding.text(context)
            if len(text) >= LETTERS and (self._decoding.whole(context, text) or (late and BROKEN not in text)):
                self._window, self._settled, self._given = context, len(text), len(text)
                return

    def _beginning(self, ids: list[int]) -> tuple[list[int], int]:
        """The last tokens of a prompt, from some before its last whole character on, and the letters up to that."""
        for end in range(len(ids), 0, -1):
            context = ids[max(0, end - CONTEXT) : end]
            text = self._decoding.text(context)
            if len(text) >= LETTERS and self._decoding.whole(context, text):
                return context + ids[end:], len(text)
        return ids, 0


class Decoding:
    """What tokens decode to, and whether that stays.

    ``runs`` says whether tokens for single bytes stand beside others, and are decoded in runs.
    """

    def __init__(self, tokenizer: TextTokenizer):
        self.tokenizer = tokenizer
        single = self._tokens(SINGLE)
        self.runs, self.single = bool(single), frozenset(single)
        self.ends = [[single[byte] for byte in more] for more in ENDS_SINGLE] if single else []  # could end a character
        if not single:
            self.ends = [[token] for token in self._tokens(ENDS)]

    def _tokens(self, names: Sequence[str]) -> list[int]:
        """The ids of these tokens; none where one is missing, or is something else than a byte."""
        if not isinstance(self.tokenizer, (BPE, Subword)):
            return []
        places = [self.tokenizer.backend.token_to_id(name) for name in names]
        found = [place for place in places if place is not None]
        return found if len(found) == len(names) and self.text(found[-1:]) == BROKEN else []

    def text(self, ids: list[int]) -> str:
        return self.tokenizer.decode(torch.tensor(ids, dtype=torch.long)) if ids else ""

    def whole(self, ids: list[int], text: str) -> bool:
        """Does the text of these tokens end in no character that others may end or break?  Then bytes that could end
        one are broken themselves, and change nothing before them."""
        if self.runs:
            if ids[-1] not in self.single and self.text(ids[-1:]):
                return True
        elif not text.endswith(BROKEN):
            return True
        for end in self.ends:
            more = self.text(ids + end)
            if not more.startswith(text) or more.count(BROKEN) != text.count(BROKEN) + len(end):
                return False
        return True


class Stops:
    """Text that is held back as long as it may be the beginning of a stop string."""

    def __init__(self, stops: Sequence[str]):
        if "" in stops:
            raise ValueError("one of the stop strings is empty, and would stop every text; leave it out")
        self.stops, self.held, self.found = tuple(stops), "", False

    def passed(self, text: str) -> str:
        """What of the text that was held, and of this after it, stands before every stop string."""
        if self.found:
            return ""
        text, self.held = self.held + text, ""
        places = [(text.index(stop) + len(stop), text.index(stop)) for stop in self.stops if stop in text]
        if places:
            self.found = True
            return text[: min(places)[1]]
        for size in range(min(len(text), max(map(len, self.stops), default=1) - 1), 0, -1):
            if any(stop.startswith(text[-size:]) for stop in self.stops):
                self.held = text[-size:]
                return text[:-size]
        return text

    def rest(self) -> str:
        """What was held, where nothing comes after it."""
        held, self.held = self.held, ""
        return held


def shared(a: str, b: str) -> int:
    """The number of letters with which both begin."""
    return next((place for place, (one, other) in enumerate(zip(a, b)) if one != other), min(len(a), len(b)))
