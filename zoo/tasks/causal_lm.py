"""Guess the next token from those before: GPT over text, an image model over patches, predictive coding over frames."""

# Shapes: B batch, T tokens, D model width.

import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor

from zoo.nn import Backbone, Cache, HeadFactory
from zoo.pictures import Picture, Sheet
from zoo.tasks.schedule import Schedule, WarmupCosine
from zoo.tasks.showing import columns, sequences
from zoo.tasks.task import OneSequence, require_causal, require_each_token
from zoo.tokenizers import Batch, Scores, Tokenizer, Tokens

LONGEST = 256  # tokens that a picture shows of a sequence


class CausalLM(OneSequence):
    """Predict the next token: Radford et al. 2018 (GPT) for text, Chen et al. 2020 (iGPT) for images, Chung et al. 2019
    (APC) for audio.

    The first token of a sequence is given, each later one is predicted.  Raises ValueError for a backbone that sees
    the future.
    """

    def __init__(
        self,
        backbone: Backbone,
        tokenizer: Tokenizer,
        tie: bool = True,
        head: HeadFactory | None = None,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        schedule: Schedule = WarmupCosine(),
    ):
        super().__init__(optimizer, schedule)
        require_causal(backbone, "CausalLM")
        self.tokenizer = tokenizer
        self.embed = tokenizer.embed(backbone.dim)
        require_each_token(self.embed, "CausalLM")
        self.backbone = backbone
        self.head = tokenizer.head(backbone.dim, self.embed if tie else None, head)
        self.begin(backbone, "embed", "head")

    def forward(self, tokens: Tokens, cache: Cache | None = None) -> Tensor:
        """Tokens -> (B, T, D) states, each having seen the tokens up to its own.  Padding on the right needs no mask:
        nobody looks that way."""
        return self.backbone(self.embed(tokens.value), cache=cache)

    def step(self, batch: Batch, training: bool) -> Scores:
        tokens = batch.input
        states, target = self(tokens)[:, :-1], tokens.value[:, 1:]
        if tokens.padding is None:
            return self.tokenizer.score(self.head(states.flatten(0, 1)), target.flatten(0, 1))
        real = tokens.padding[:, 1:]
        return self.tokenizer.score(self.head(states[real]), target[real])

    def derive(self, means: dict[str, float]) -> dict[str, float]:
        return self.tokenizer.derive(means)

    @torch.no_grad()
    def generate(self, value: Tensor, length: int) -> Tensor:
        """Continue (B, T) or (B, T, F) by ``length`` tokens, each the likeliest, with a cache: greedy decoding."""
        cache, parts, new = Cache(), [value], value
        for _ in range(length):
            state = self(Tokens(new), cache)[:, -1]
            new = self.tokenizer.choose(self.head(state))[:, None].to(value.dtype)
            parts.append(new)
        return torch.cat(parts, 1)

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The likeliest next token at every position: (B, T) or (B, T, F)."""
        states = self(batch.input)
        return self.tokenizer.choose(self.head(states.flatten(0, 1))).unflatten(0, states.shape[:2])

    def sheets(self, batch: Batch) -> list[Picture]:
        truths = sequences(batch.input)
        if self.tokenizer.length is None:  # an image is completed, a longer text or sound only so far
            truths = [truth[:LONGEST] for truth in truths]
        given = max(1, min(map(len, truths)) // 2)
        start = torch.stack([truth[:given] for truth in truths])
        written = self.generate(start, max(map(len, truths)) - given)
        rows = [self.tokenizer.continued(t, w[: len(t)], given) for t, w in zip(truths, written, strict=True)]
        title = f"Continued after the first {given} tokens, the likeliest one each time"
        return [Sheet("continued", title, columns(self.tokenizer, rows))]
