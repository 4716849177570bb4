"""Guess the hidden tokens from all the others: BERT over text, SimMIM over patches, masked spectrograms over frames."""

# Shapes: B batch, T tokens, D model width.

import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor

from zoo.nn import Backbone, HeadFactory
from zoo.pictures import Picture, Sheet
from zoo.tasks.masking import Masking, RandomMasking, fresh_keys
from zoo.tasks.schedule import Schedule, WarmupCosine
from zoo.tasks.showing import columns, keyed
from zoo.tasks.task import OneSequence
from zoo.tokenizers import Batch, Scores, Tokenizer, Tokens


class MaskedLM(OneSequence):
    """Guess hidden tokens: Devlin et al. 2018 (BERT) for text, Xie et al. 2022 (SimMIM) for images.

    Every chosen token is hidden entirely, not by BERT's 80/10/10 rule, which Wettig et al. 2023 found to bring nothing.
    The head runs on hidden positions only.
    """

    def __init__(
        self,
        backbone: Backbone,
        tokenizer: Tokenizer,
        masking: Masking = RandomMasking(),
        tie: bool = True,
        head: HeadFactory | None = None,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        schedule: Schedule = WarmupCosine(),
    ):
        super().__init__(optimizer, schedule)
        self.tokenizer, self.masking = tokenizer, masking
        self.embed = tokenizer.embed(backbone.dim)
        self.embed.add_mask()
        self.backbone = backbone
        self.head = tokenizer.head(backbone.dim, self.embed if tie else None, head)
        self.begin(backbone, "embed", "head")

    def forward(self, tokens: Tokens, hidden: Tensor | None = None) -> Tensor:
        """Tokens, with those where ``hidden`` (B, T) is True made invisible -> (B, T, D) states."""
        return self.backbone(self.embed(tokens.value, hidden, tokens.types, tokens.padding), padding=tokens.padding)

    def hide(self, batch: Batch) -> Tensor:
        """(B, T) True where this batch's tokens are to be guessed."""
        tokens = batch.input
        keys = fresh_keys(len(tokens), tokens.value.device) if batch.key is None else batch.key
        return self.masking(tokens.real, keys)

    def step(self, batch: Batch, training: bool) -> Scores:
        hidden = self.hide(batch)
        states = self(batch.input, hidden)[hidden]  # (hidden tokens, D)
        return self.tokenizer.score_states(self.head, states, batch.input.value[hidden])

    def derive(self, means: dict[str, float]) -> dict[str, float]:
        return self.tokenizer.derive(means)

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The batch with its hidden tokens replaced by the guesses: (B, T) or (B, T, F)."""
        hidden = self.hide(batch)
        guess = self.tokenizer.choose(self.head(self(batch.input, hidden)[hidden]))
        value = batch.input.value.clone()
        value[hidden] = guess.to(value.dtype)
        return value

    def sheets(self, batch: Batch) -> list[Picture]:
        batch = keyed(batch)
        guess, hidden = self.predict_step(batch, 0), self.hide(batch)
        parts = zip(batch.input.value, guess, hidden, batch.input.real, strict=True)
        own = self.tokenizer.unpadded
        rows = [
            self.tokenizer.guessed(own(value, real), own(new, real), own(mask.float(), real) > 0)
            for value, new, mask, real in parts
        ]
        title = f"Hidden {self.tokenizer.unit} guessed from the others"
        return [Sheet("masked", title, columns(self.tokenizer, rows))]
