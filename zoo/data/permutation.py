"""A permutation as a pure function of the place, for more samples than one would sort."""

# Shapes: n places.

from __future__ import annotations

from torch import Tensor

from zoo.rng import sample_keys

ROUNDS = 6


def permuted(place: Tensor, length: int, seed: int, number: int) -> Tensor:
    """(n,) places below ``length`` -> (n,) where they are in permutation ``number``: a Feistel network over the least
    power of two that holds ``length``, applied again to what falls outside (cycle walking: Black and Rogaway, "Ciphers
    with arbitrary finite domains", 2002).  Memory and time depend on n alone."""
    bits = max(2, (length - 1).bit_length())
    found = _network(place, bits, seed, number)
    while len(outside := (found >= length).nonzero().flatten()):
        found[outside] = _network(found[outside], bits, seed, number)
    return found


def _network(place: Tensor, bits: int, seed: int, number: int) -> Tensor:
    low = bits // 2
    halves = [place & ((1 << low) - 1), place >> low]
    sizes = [low, bits - low]
    for step in range(ROUNDS):
        one, other = step % 2, 1 - step % 2
        noise = sample_keys(seed, number * ROUNDS + step, halves[other])
        halves[one] = halves[one] ^ (noise & ((1 << sizes[one]) - 1))
    return halves[0] | (halves[1] << low)
