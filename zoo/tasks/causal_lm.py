"""Guess the next token from those before: GPT over text, an image model over patches, predictive coding over frames."""

# Shapes: B batch, T tokens, D model width.

from collections.abc import Iterator
from typing import Any

import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor

from zoo.generation import Generation, Writer
from zoo.generation.prompts import begun, continued
from zoo.nn import Backbone, Cache, HeadFactory
from zoo.pictures import Picture, Sheet
from zoo.tasks.schedule import Schedule, WarmupCosine
from zoo.tasks.showing import columns, sequences
from zoo.tasks.surface import Raw
from zoo.tasks.task import OneSequence, require_causal, require_each_token
from zoo.tasks.writing import WritingTask
from zoo.tokenizers import Batch, Scores, Tokenizer, Tokens

LONGEST = 256  # tokens that a picture shows of a sequence


class CausalLM(WritingTask, OneSequence):
    """Predict the next token: Radford et al. 2018 (GPT) for text, Chen et al. 2020 (iGPT) for images, Chung et al. 2019
    (APC) for audio.

    The first token of a sequence is given, each later one is predicted.  ``generation`` says how the task writes on.
    Raises ValueError for a backbone that sees the future.
    """

    def __init__(
        self,
        backbone: Backbone,
        tokenizer: Tokenizer,
        tie: bool = True,
        head: HeadFactory | None = None,
        generation: Generation = Generation(),
        optimizer: OptimizerCallable = torch.optim.AdamW,
        schedule: Schedule = WarmupCosine(),
    ):
        super().__init__(optimizer, schedule)
        require_causal(backbone, "CausalLM")
        self.tokenizer, self.generation = tokenizer, generation
        self.embed = tokenizer.embed(backbone.dim)
        require_each_token(self.embed, "CausalLM")
        self.backbone = backbone
        self.head = tokenizer.head(backbone.dim, self.embed if tie else None, head)
        self.begin(backbone, "embed", "head")

    def forward(self, tokens: Tokens, cache: Cache | None = None) -> Tensor:
        """Tokens -> (B, T, D) states, each having seen the tokens up to its own."""
        x = self.embed(tokens.value, padding=tokens.padding)
        return self.backbone(x, padding=tokens.padding, cache=cache)

    def step(self, batch: Batch, training: bool) -> Scores:
        states, target, real = self(batch.input), batch.input.value, batch.input.padding
        if real is None:
            return self.tokenizer.score_states(self.head, states[:, :-1].flatten(0, 1), target[:, 1:].flatten(0, 1))
        place = real.cumsum(1)  # the next token is the next real one, wherever it stands
        last, first = place == place[:, -1:], place == 1
        return self.tokenizer.score_states(self.head, states[real & ~last], target[real & ~first])

    def derive(self, means: dict[str, float]) -> dict[str, float]:
        return self.tokenizer.derive(means)

    @property
    def pen(self) -> Tokenizer:
        return self.tokenizer

    def prompts(self, x: Raw, prompt: "Raw | None") -> list[Tensor]:
        if prompt is not None:
            raise ValueError("a CausalLM goes on from what it reads: give that alone, without a prompt")
        return self.here(begun(self.tokenizer, x, self.tokenizer.prompt))

    def writer(self, x: Raw, cache: Cache | None) -> Writer:
        return Writer(self.embed, self.backbone, self.head, cache=cache)

    def scored(self, x: Raw, continuation: Raw) -> Iterator[tuple[Tensor, Tensor]]:
        prompts = self.prompts(x, None)
        rows = self.here(continued(self.tokenizer, x, prompts, continuation))
        whole = self.tokenizer.collate([torch.cat(pair) for pair in zip(prompts, rows, strict=True)])
        for states, prompt, row in zip(self(whole), prompts, rows, strict=True):
            yield states[len(prompt) - 1 : len(prompt) - 1 + len(row)], row

    def predict_step(self, batch: Batch, batch_idx: int) -> list[Any]:
        """The second half of each sequence, written on from the first: texts, or whole images and spectrograms."""
        value, real = batch.input.value, batch.input.real
        given = int(real.sum(1).min()) // 2
        return self.generate(Tokens(value[:, : max(1, given)], real[:, : max(1, given)])).outputs

    def sheets(self, batch: Batch) -> list[Picture]:
        whole, count = ~batch.input.broken, batch.input.real.sum(1)
        if not whole.any():  # all are images that are narrower than their grid
            return []
        truths = [truth for truth, kept in zip(sequences(self.tokenizer, batch.input), whole) if kept]
        if self.tokenizer.length is None:  # an image is completed, a longer text or sound only so far
            truths = [truth[:LONGEST] for truth in truths]
        given = max(1, min(int(count[whole].min()), *map(len, truths)) // 2)
        start = torch.stack([truth[:given] for truth in truths])
        written = self.generate(Tokens(start), max(map(len, truths)) - given).tokens
        ends = [torch.cat(pair) for pair in zip(start, written, strict=True)]
        rows = [self.tokenizer.continued(t, w[: len(t)], given) for t, w in zip(truths, ends, strict=True)]
        title = f"Continued after the first {given} tokens, the likeliest one each time"
        return [Sheet("continued", title, columns(self.tokenizer, rows))]
