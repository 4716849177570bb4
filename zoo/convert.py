"""Checkpoint names, theirs and ours: one table a family, read in both directions."""

# Shapes: D outputs, C channels, P patch size, F = P P C features of a flattened patch.

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

State = dict[str, Tensor]


@dataclass(frozen=True)
class Rule:
    """One of their tensors is one or several of ours; ``save`` undoes ``load``, bit for bit.  Where ``theirs`` are
    several, their stack (n, ...) is what is loaded and saved.

    ``theirs`` and ``ours`` are paths of modules or tensors: what hangs below them (``.weight``, ``.bias``) follows.
    ``{}`` stands for an index, the same on both sides.  Both methods raise ValueError where the shape is impossible.
    """

    theirs: str | tuple[str, ...]
    ours: str | tuple[str, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.theirs,) if isinstance(self.theirs, str) else self.theirs

    @property
    def targets(self) -> tuple[str, ...]:
        return (self.ours,) if isinstance(self.ours, str) else self.ours

    def after(self, prefix: str) -> "Rule":
        """The same with ``prefix`` before their names."""
        sources = tuple(prefix + path for path in self.sources)
        return dataclasses.replace(self, theirs=sources[0] if isinstance(self.theirs, str) else sources)

    def load(self, value: Tensor) -> list[Tensor]:
        raise NotImplementedError

    def save(self, parts: Sequence[Tensor]) -> Tensor:
        raise NotImplementedError


@dataclass(frozen=True)
class Same(Rule):
    """The same tensor; ``flip`` transposes matrices on the way (GPT-2 stores them inputs first)."""

    flip: bool = False

    def load(self, value: Tensor) -> list[Tensor]:
        return [flipped(value) if self.flip else value]

    def save(self, parts: Sequence[Tensor]) -> Tensor:
        return flipped(parts[0]) if self.flip else parts[0]


@dataclass(frozen=True)
class Fused(Rule):
    """Several of ours in equal shares, one below the other: ``Fused("attn.qkv", ("q", "k", "v"))``; with ``heads``,
    the first head's share of each, then the second's (DeBERTa)."""

    heads: int = 1
    flip: bool = False

    def load(self, value: Tensor) -> list[Tensor]:
        value = flipped(value) if self.flip else value
        heads, count = self.heads, len(self.targets)
        if value.dim() == 0 or len(value) % (heads * count):
            shares = f"{count} equal shares" + (f" of {heads} heads" if heads > 1 else "")
            raise ValueError(f"of shape {tuple(value.shape)} cannot be cut into {shares}")
        shares = value.unflatten(0, (heads, count, len(value) // (heads * count)))
        return [part.flatten(0, 1).clone() for part in shares.unbind(1)]

    def save(self, parts: Sequence[Tensor]) -> Tensor:
        if len({part.shape for part in parts}) > 1:
            raise ValueError(f"would be fused from unequal shares: {', '.join(str(tuple(p.shape)) for p in parts)}")
        rows = len(parts[0]) // self.heads
        value = torch.stack([part.unflatten(0, (self.heads, rows)) for part in parts], 1).flatten(0, 2)
        return flipped(value) if self.flip else value


class Leading(Rule):
    """Theirs has an axis of size 1 in front (the class token and position table of a ViT)."""

    def load(self, value: Tensor) -> list[Tensor]:
        if value.dim() == 0 or len(value) != 1:
            raise ValueError(f"of shape {tuple(value.shape)} should have an axis of size 1 in front")
        return [value[0]]

    def save(self, parts: Sequence[Tensor]) -> Tensor:
        return parts[0][None]


@dataclass(frozen=True)
class Rows(Rule):
    """Several of theirs, each of one row with ``axes`` axes of size 1 in front, are the rows of one of ours: the class
    tokens of AST (2) and CLIP (0)."""

    axes: int = 2

    def load(self, value: Tensor) -> list[Tensor]:
        if value.dim() != 2 + self.axes or value[0].numel() != value.size(-1):
            raise ValueError(f"of shape {tuple(value.shape[1:])} is no row with {self.axes} axes of size 1 in front")
        return [value.flatten(1)]

    def save(self, parts: Sequence[Tensor]) -> Tensor:
        if len(parts[0]) != len(self.theirs):
            raise ValueError(f"would be made of {len(parts[0])} rows and should be of {len(self.theirs)}")
        return parts[0].view(len(parts[0]), *[1] * self.axes, -1)


@dataclass(frozen=True)
class PatchConv(Rule):
    """Their convolution (D, C, P, P) over square patches, our matrix (D, P P C) over patches flattened row, column,
    channel; biases are the same."""

    channels: int = 3

    def load(self, value: Tensor) -> list[Tensor]:
        if value.dim() == 1:
            return [value]
        if value.dim() != 4 or value.size(1) != self.channels or value.size(2) != value.size(3):
            raise ValueError(f"of shape {tuple(value.shape)} is not (D, {self.channels}, P, P)")
        return [value.permute(0, 2, 3, 1).flatten(1).contiguous()]

    def save(self, parts: Sequence[Tensor]) -> Tensor:
        (value,) = parts
        if value.dim() == 1:
            return value
        patch = math.isqrt(value.size(1) // self.channels)
        if patch * patch * self.channels != value.size(1):
            raise ValueError(f"would come from {value.size(1)} features, no square patch of {self.channels} channels")
        return value.unflatten(1, (patch, patch, self.channels)).permute(0, 3, 1, 2).contiguous()


class Table:
    """All the rules of a family.  A pair of strings is a ``Same``; where several rules fit, the longest path wins.

    ``tied`` lists pairs of ours (copy, original) whose copy their files may omit, ``drop`` the paths of theirs that are
    no weights.  ``alias`` lists pairs of theirs (other, name) that are one tensor while the copies are tied; ``other``
    is the one in use, where both are there.  Both ways raise ValueError that names the tensor without a rule, or that
    with a wrong shape.
    """

    def __init__(
        self,
        *rules: Rule | tuple[str, str],
        drop: Iterable[str] = (),
        tied: Iterable[tuple[str, str]] = (),
        alias: Iterable[tuple[str, str]] = (),
    ):
        self.rules = [Same(*rule) if isinstance(rule, tuple) else rule for rule in rules]
        self.drop = [pattern(path) for path in drop]
        self.tied, self.alias = list(tied), list(alias)
        self._theirs = longest_first((path, rule) for rule in self.rules for path in rule.sources)
        self._ours = longest_first((path, rule) for rule in self.rules for path in rule.targets)

    def load(self, theirs: State) -> State:
        """Their state dict -> ours."""
        state, theirs = {}, dict(theirs)
        for other, name in self.alias:
            if other in theirs:
                theirs[name] = theirs.pop(other)
        for name, value in theirs.items():
            if any(path.fullmatch(name) for path in self.drop):
                continue
            rule, ending = _find(name, self._theirs)
            several = [ending(path) for path in rule.sources]
            for other in several:
                if other not in theirs:
                    raise ValueError(f"{name!r} cannot be loaded without {other!r}")
                if theirs[other].shape != value.shape:
                    raise ValueError(f"the tensors {name!r} and {other!r} are of different shapes")
            if name != several[0]:
                continue  # loaded with the first
            if not isinstance(rule.theirs, str):
                value = torch.stack([theirs[other] for other in several])
            for target, part in zip((ending(path) for path in rule.targets), _named(name, rule.load, value)):
                if target in state:
                    raise ValueError(f"{name!r} and another tensor of the checkpoint both become {target!r}")
                state[target] = part
        for copy, original in self.tied:
            if original in state:
                state.setdefault(copy, state[original])
        return state

    def save(self, ours: State) -> State:
        """Our state dict -> theirs, the inverse of ``load``; a tied copy that is its original is left out."""
        tied = {copy for copy, original in self.tied if copy in ours and ours[copy] is ours.get(original)}
        state: State = {}
        for name in ours:
            if name in tied:
                continue
            rule, ending = _find(name, self._ours)
            parts = [ending(path) for path in rule.targets]
            for part in parts:
                if part not in ours:
                    raise ValueError(f"{name!r} cannot be saved without {part!r}")
            target, *more = [ending(path) for path in rule.sources]
            if target not in state:
                value = _named(target, rule.save, [ours[part] for part in parts])
                several = [value] if isinstance(rule.theirs, str) else [row.clone() for row in value]
                state |= zip([target, *more], several)
        if len(tied) < len(self.tied):
            state |= {other: state[name].clone() for other, name in self.alias if name in state}
        return state

    def knows(self, name: str) -> bool:
        """Is their tensor ``name`` in the table, to be kept or dropped?"""
        paths = (*self.drop, *(path for path, _ in self._theirs))
        return any(path.fullmatch(name) for path in paths) or any(name == other for other, _ in self.alias)

    def published(self, name: str) -> str | None:
        """What their files call our tensor ``name``, or None where no rule speaks of it."""
        try:
            rule, ending = _find(name, self._ours)
        except ValueError:
            return None
        return ending(rule.sources[0])


def pairs(text: str, theirs: str = "", ours: str = "") -> tuple[tuple[str, str], ...]:
    """Two columns of names, theirs and ours, as pairs; ``theirs`` and ``ours`` stand before each."""
    words = text.split()
    return tuple((theirs + a, ours + b) for a, b in zip(words[::2], words[1::2], strict=True))


def pattern(path: str) -> re.Pattern:
    r"""``blocks.{}.norm`` -> ``blocks\.(\d+)\.norm((?:\..*)?)``: the indices, then what hangs below."""
    return re.compile(re.escape(path).replace(r"\{\}", r"(\d+)") + r"((?:\..*)?)")


def longest_first(paths: Iterable[tuple[str, Rule]]) -> list[tuple[re.Pattern, Rule]]:
    longest = sorted(paths, key=lambda item: -len(item[0].replace("{}", "")))  # so an index of its own wins over any
    return [(pattern(path), rule) for path, rule in longest]


def flipped(value: Tensor) -> Tensor:
    return value.mT.contiguous() if value.dim() > 1 else value


def _find(name: str, rules: list[tuple[re.Pattern, Rule]]):
    """The rule for a tensor, and what turns that rule's paths into full names."""
    rule, match = next(((rule, match) for path, rule in rules if (match := path.fullmatch(name))), (None, None))
    if match is None:
        raise ValueError(f"no rule for the tensor {name!r}")
    *index, tail = match.groups()
    return rule, lambda path: path.format(*index) + tail


def _named(name: str, convert, value):
    try:
        return convert(value)
    except ValueError as error:
        raise ValueError(f"the tensor {name!r} {error}") from None
