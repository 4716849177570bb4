"""Text as characters: one token each, of an alphabet that is given."""

# Shapes: T tokens, V vocabulary.

import torch
from torch import Tensor

from zoo.tokenizers.text import TextTokenizer


class Characters(TextTokenizer):
    """Each character of ``alphabet`` is a token, whose id is its place there; there are no special tokens.

    Raises ValueError where a character stands in the alphabet twice, and for a text that has another one.
    """

    def __init__(self, alphabet: str):
        twice = next((c for i, c in enumerate(alphabet) if c in alphabet[:i]), None)
        if twice is not None:
            raise ValueError(f"{twice!r} stands twice in alphabet={alphabet!r}; give each character once")
        self.alphabet = alphabet
        self.ids = {character: i for i, character in enumerate(alphabet)}

    @property
    def vocabulary(self) -> int:
        return len(self.alphabet)

    def find(self, role: str) -> int | None:
        return None

    def special(self, role: str) -> int:
        raise ValueError(f"an alphabet has no {role} token; take BPE, whose tokens are bytes unless it is given a file")

    def tokens(self) -> dict[str, int]:
        return self.ids

    def encode(self, raw: str) -> Tensor:
        try:
            return torch.tensor([self.ids[character] for character in raw], dtype=torch.long)
        except KeyError as error:
            raise ValueError(f"{error.args[0]!r} is no character of alphabet={self.alphabet!r}; add it") from None

    def decode(self, value: Tensor) -> str:
        return "".join(self.alphabet[i] for i in value.tolist())

    def sizes(self, device: torch.device) -> Tensor:
        """(V,) bytes of each character in UTF-8."""
        cache = self.__dict__.setdefault("_sizes", {})
        if device not in cache:
            cache[device] = torch.tensor([len(character.encode()) for character in self.alphabet], device=device)
        return cache[device]
