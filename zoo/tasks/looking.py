"""Pictures of attention: who looks at whom in the last layer."""

# Shapes: B batch, T tokens (queries), S keys, H heads.

import torch
from torch import Tensor

from zoo.pictures import Picture, Sheet, Weights
from zoo.tasks.showing import column, sequences
from zoo.tokenizers import Embed, Tokenizer, Tokens

Side = tuple[Tokenizer, Tokens, Embed]  # of a pair
LABELLED, PLAIN = 40, 160  # tokens along an axis with their texts, and without


def within(tokenizer: Tokenizer, tokens: Tokens, embed: Embed, maps: Tensor, ahead: int) -> list[Picture]:
    """A sequence that looks at itself: ``maps`` (B, H, T, S), with ``ahead`` tokens of the pool in front.  Of text the
    first sample is shown, all tokens by all; else what the pool's tokens look at, or the mean of all tokens.  Nothing
    is shown of an embedding whose tokens are no stretches of the sequence (``PatchFrames``)."""
    values = sequences(tokenizer, tokens)
    if maps.size(-1) - ahead > tokens.value.size(1):
        return []
    labels = tokenizer.labels(values[0])
    if labels is not None:
        names = [f"[{i + 1}]" for i in range(ahead)] + labels
        return [matrix("Attention of the last layer", maps[0, :, : len(names), : len(names)], names, names)]
    padding = embed.padding(tokens.padding)
    padding = maps.new_ones(len(maps), maps.size(-1) - ahead, dtype=torch.bool) if padding is None else padding
    rows = []
    for value, weights, real in zip(values, maps, padding, strict=True):
        who = weights[:, :ahead] if ahead else weights[:, real]
        seen = tokenizer.unpadded(who.mean(1)[:, ahead:].mT, real).mT  # (H, S)
        rows.append(tokenizer.regarded(value, seen.cpu()))
    columns = []
    for heading in rows[0]:
        over = [row[heading][1] for row in rows]
        found = None if over[0] is None else [weights for weights in over if weights is not None]
        columns.append(column(heading, tokenizer, [row[heading][0] for row in rows], found))
    whose = "the pool's token" if ahead else "all tokens, on average,"
    return [Sheet("attention", f"What {whose} looked at in the last layer", columns)]


def across(source: Side, target: Side, maps: Tensor) -> list[Picture]:
    """A decoder that looks at its source: ``maps`` (B, H, T, S), of the first sample."""
    sizes, names = [], []
    for (tokenizer, tokens, embed), size in ((target, maps.size(2)), (source, maps.size(3))):
        sizes.append(lengths(tokens, embed, size)[0])
        names.append(tokenizer.labels(sequences(tokenizer, tokens)[0]) or [])
    weights = maps[0, :, : sizes[0], : sizes[1]]
    return [matrix("What the decoder looked at in the source before each token, last layer", weights, *names)]


def lengths(tokens: Tokens, embed: Embed, longest: int) -> list[int]:
    """How many embedded tokens each sample has, the ``longest`` so many."""
    padding = embed.padding(tokens.padding)
    return [longest] * len(tokens) if padding is None else padding.sum(1).tolist()


def matrix(title: str, weights: Tensor, queries: list[str], keys: list[str]) -> Weights:
    """(H, T, S) weights, their mean first; long sequences are cut."""
    rows, columns = (LABELLED if names else PLAIN for names in (queries, keys))
    weights = weights[:, :rows, :columns].cpu()
    heads = {f"head {i + 1}": head for i, head in enumerate(weights)}
    return Weights("attention", title, {"mean of the heads": weights.mean(0), **heads}, queries[:rows], keys[:columns])


def last(maps: dict[str, Tensor], cross: bool = False) -> Tensor | None:
    """Of the last layer: that of the decoder's look at its source, or of the input's at itself; None where no layer
    has attention."""
    kinds = {path: path.endswith("cross") for path in maps if not path.startswith("target_")}
    found = [path for path, kind in kinds.items() if kind == cross and (cross or ".decoder." not in path)]
    return maps[found[-1]] if found else None
