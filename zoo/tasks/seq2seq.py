"""Write one sequence from another: translation, speech recognition, captioning, and the ways back."""

# Shapes: B batch, M source tokens, T target tokens, D model width.

import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor

from zoo.nn import Cache, EncoderDecoder, HeadFactory
from zoo.pictures import Picture, Sheet
from zoo.tasks.looking import across, last
from zoo.tasks.metrics import TextMetric
from zoo.tasks.schedule import Schedule, WarmupCosine
from zoo.tasks.showing import column, decoded, sequences
from zoo.tasks.task import Task, each, require_causal, require_each_token
from zoo.tokenizers import Batch, Scores, Tokenizer, Tokens


class Seq2Seq(Task):
    """Write one sequence from another, over any pair of modalities (Vaswani et al. 2017).

    ``target_tokenizer`` is the source's if not given; equal tokenizers share one embedding unless ``share`` is false,
    and ``tie`` lets the head share the target's.  ``metrics`` compare greedily decoded texts with their references, on
    the first ``decode_batches`` batches of each validation and on the whole test set; at most ``max_length`` tokens are
    decoded.
    """

    def __init__(
        self,
        backbone: EncoderDecoder,
        tokenizer: Tokenizer,
        target_tokenizer: Tokenizer | None = None,
        tie: bool = True,
        head: HeadFactory | None = None,
        share: bool = True,
        label_smoothing: float = 0.0,
        metrics: list[TextMetric] | None = None,
        decode_batches: int = 8,
        max_length: int = 128,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        schedule: Schedule = WarmupCosine(),
    ):
        super().__init__(optimizer, schedule)
        require_causal(backbone.decoder, "Seq2Seq")
        self.tokenizer, self.target_tokenizer = tokenizer, target_tokenizer or tokenizer
        self.label_smoothing, self.metrics = label_smoothing, metrics or []
        self.decode_batches, self.max_length = decode_batches, max_length
        self.embed = tokenizer.embed(backbone.dim)
        shared = share and self.target_tokenizer == tokenizer
        self.target_embed = self.embed if shared else self.target_tokenizer.embed(backbone.dim)
        require_each_token(self.target_embed, "Seq2Seq")
        self.target_embed.add_start()
        self.backbone = backbone
        self.head = self.target_tokenizer.head(backbone.dim, self.target_embed if tie else None, head)
        self.begin(backbone, "embed", *([] if shared else ["target_embed"]), "head")

    def encode(self, source: Tokens) -> tuple[Tensor, Tensor | None]:
        """The memory (B, M, D) that the decoder reads, and its padding."""
        padding = self.embed.padding(source.padding)
        return self.backbone.encoder(self.embed(source.value), padding=padding), padding

    def forward(self, source: Tokens, target: Tokens) -> Tensor:
        """(B, T, D) states: the t-th has read the source and the target before t."""
        memory, padding = self.encode(source)
        x = torch.cat((self.target_embed.start(len(target)), self.target_embed(target.value[:, :-1])), 1)
        return self.backbone.decoder(x, memory=memory, memory_padding=padding)

    def states(self, tokens: Tokens) -> tuple[Tensor, Tensor | None]:
        return self.encode(tokens)

    def forward_head(self, states: Tensor, pre_logits: bool = False, padding: Tensor | None = None) -> Tensor:
        return each(self.head, states, pre_logits, padding)

    def observe(self, batch: Batch) -> None:
        if batch.target is None:
            self.encode(batch.input)
        else:
            self(batch.input, self.target_tokenizer.written(batch.target))

    def step(self, batch: Batch, training: bool) -> Scores:
        assert batch.target is not None, "Seq2Seq needs pairs"
        target = self.target_tokenizer.written(batch.target)
        states = self(batch.input, target)
        smoothing = self.label_smoothing if training else 0.0
        return self.target_tokenizer.score(self.head(states[target.real]), target.value[target.real], smoothing)

    def derive(self, means: dict[str, float]) -> dict[str, float]:
        return self.target_tokenizer.derive(means)

    @torch.no_grad()
    def generate(self, source: Tokens, length: int | None = None) -> list[Tensor]:
        """Greedy decoding of (B,) sequences, each up to its end or ``length`` tokens (an image: all its patches)."""
        (memory, padding), cache = self.encode(source), Cache()
        x, parts = self.target_embed.start(len(source)), []
        done = torch.zeros(len(source), dtype=torch.bool, device=memory.device)
        lengths = torch.zeros(len(source), dtype=torch.long, device=memory.device)
        for _ in range(length or self.target_tokenizer.length or self.max_length):
            state = self.backbone.decoder(x, memory=memory, memory_padding=padding, cache=cache)[:, -1]
            new = self.target_tokenizer.choose(self.head(state))[:, None]
            parts.append(new)
            lengths += ~done
            done |= self.target_tokenizer.ended(new[:, 0])
            if done.all():
                break
            x = self.target_embed(new)
        return [row[:n] for row, n in zip(torch.cat(parts, 1), lengths.tolist(), strict=True)]

    def compare(self, batch: Batch) -> list[tuple[str, str]]:
        """(decoded, reference) texts of a batch."""
        decode, target = self.target_tokenizer.decode, batch.target
        assert target is not None
        written = self.generate(batch.input)
        return [(decode(w), decode(t[r])) for w, t, r in zip(written, target.value, target.real, strict=True)]

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        super().validation_step(batch, batch_idx)
        if self.metrics and batch_idx < self.decode_batches:
            self.meters["val"].texts += self.compare(batch)

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        super().test_step(batch, batch_idx)
        if self.metrics:
            self.meters["test"].texts += self.compare(batch)

    def measure(self, texts: list[tuple[str, str]]) -> dict[str, float]:
        if not texts:
            return {}
        hypotheses, references = zip(*texts, strict=True)
        return {metric.name: metric(hypotheses, references) for metric in self.metrics}

    def predict_step(self, batch: Batch, batch_idx: int) -> list:
        """What the target tokenizer makes of each decoded sequence: texts, images or spectrograms."""
        return [self.target_tokenizer.decode(row) for row in self.generate(batch.input)]

    def sheets(self, batch: Batch) -> list[Picture]:
        assert batch.target is not None and self.target_tokenizer is not None
        tokenizer, references = self.target_tokenizer, sequences(batch.target)
        longest = max(map(len, references))
        written = self.generate(batch.input, longest if tokenizer.endless else None)
        if tokenizer.endless:
            written = [row[: len(reference)] for row, reference in zip(written, references, strict=True)]
        pairs = zip(written, references, strict=True)
        parts = [
            decoded("source", self.tokenizer, batch.input),
            decoded("reference", tokenizer, batch.target),
            column("decoded", tokenizer, [tokenizer.against(row, reference) for row, reference in pairs]),
        ]
        return [Sheet("decoded", "Decoded from the sources, the likeliest token each time", parts)]

    def looks(self, batch: Batch) -> list[Picture]:
        assert batch.target is not None and self.target_tokenizer is not None
        target = self.target_tokenizer.written(batch.target)
        maps = last(self.attention(batch), cross=True)
        if maps is None:
            return []
        return across(
            (self.tokenizer, batch.input, self.embed), (self.target_tokenizer, target, self.target_embed), maps
        )
