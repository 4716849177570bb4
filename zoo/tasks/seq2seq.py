"""Write one sequence from another: translation, speech recognition, captioning, and the ways back."""

# Shapes: B batch, M source tokens, T target tokens, D model width.

from collections.abc import Iterator

import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor

from zoo.generation import Generation, Writer
from zoo.generation.prompts import begun
from zoo.generation.writer import NOTHING
from zoo.nn import Cache, EncoderDecoder, HeadFactory
from zoo.pictures import Picture, Sheet
from zoo.tasks.looking import across, last
from zoo.tasks.metrics import TextMetric
from zoo.tasks.schedule import Schedule, WarmupCosine
from zoo.tasks.showing import column, decoded, sequences
from zoo.tasks.surface import Raw
from zoo.tasks.task import each, require_causal, require_each_token
from zoo.tasks.writing import WritingTask
from zoo.tokenizers import Batch, Scores, Tokenizer, Tokens


class Seq2Seq(WritingTask):
    """Write one sequence from another, over any pair of modalities (Vaswani et al. 2017).

    ``target_tokenizer`` is the source's if not given; equal tokenizers share one embedding unless ``share`` is false,
    and ``tie`` lets the head share the target's.  ``generation`` says how the task writes.  ``metrics`` compare the
    texts that it writes so with their references, on the first ``decode_batches`` batches of each validation and on the
    whole test set.
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
        generation: Generation = Generation(),
        optimizer: OptimizerCallable = torch.optim.AdamW,
        schedule: Schedule = WarmupCosine(),
    ):
        super().__init__(optimizer, schedule)
        require_causal(backbone.decoder, "Seq2Seq")
        self.tokenizer, self.target_tokenizer = tokenizer, target_tokenizer or tokenizer
        if self.target_tokenizer.gaps:
            raise ValueError("Seq2Seq writes images of one size: give the target's tokenizer another resize, or none")
        self.label_smoothing, self.metrics = label_smoothing, metrics or []
        self.decode_batches, self.generation = decode_batches, generation
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
        return self.backbone.encoder(self.embed(source.value, padding=source.padding), padding=padding), padding

    def forward(self, source: Tokens, target: Tokens) -> Tensor:
        """(B, T, D) states: the t-th has read the source and the target before t."""
        memory, padding = self.encode(source)
        x = torch.cat((self.target_embed.start(len(target)), self.target_embed(target.value[:, :-1])), 1)
        # the state that writes a token counts where that token does
        return self.backbone.decoder(x, padding=target.padding, memory=memory, memory_padding=padding)

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
        real = target.real
        return self.target_tokenizer.score_states(self.head, states[real], target.value[real], smoothing)

    def derive(self, means: dict[str, float]) -> dict[str, float]:
        return self.target_tokenizer.derive(means)

    @property
    def pen(self) -> Tokenizer:
        return self.target_tokenizer or self.tokenizer

    def prompts(self, x: Raw, prompt: "Raw | None") -> list[Tensor]:
        if prompt is not None:
            return self.here(begun(self.pen, prompt, self.pen.plain))
        start = self.pen.nothing.new_tensor(self.generation.begin) if self.generation.begin else self.pen.nothing
        return self.here([start] * len(self.tokens(x)))

    def writer(self, x: Raw, cache: Cache | None) -> Writer:
        memory, padding = self.encode(self.tokens(x))
        start = self.pen.start
        starts = NOTHING if start is None else start
        return Writer(self.target_embed, self.backbone.decoder, self.head, memory, padding, starts, cache)

    def scored(self, x: Raw, continuation: Raw) -> Iterator[tuple[Tensor, Tensor]]:
        target = self.target_tokenizer.written(self.tokens(continuation, target=True))
        for states, row, real in zip(self(self.tokens(x), target), target.value, target.real, strict=True):
            yield states[real], row[real]

    def compare(self, batch: Batch) -> list[tuple[str, str]]:
        """(decoded, reference) texts of a batch."""
        decode, target = self.target_tokenizer.decode, batch.target
        assert target is not None
        written = self.generate(batch.input).tokens
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
        return self.generate(batch.input).outputs

    def sheets(self, batch: Batch) -> list[Picture]:
        assert batch.target is not None and self.target_tokenizer is not None
        tokenizer, references = self.target_tokenizer, sequences(self.target_tokenizer, batch.target)
        longest = max(map(len, references))
        written = self.generate(batch.input, longest if tokenizer.endless else None).tokens
        if tokenizer.endless:
            written = [row[: len(reference)] for row, reference in zip(written, references, strict=True)]
        pairs = zip(written, references, strict=True)
        parts = [
            decoded("source", self.tokenizer, batch.input),
            decoded("reference", tokenizer, batch.target),
            column("decoded", tokenizer, [tokenizer.against(row, reference) for row, reference in pairs]),
        ]
        return [Sheet("decoded", f"Decoded from the sources by {type(self.generation.search).__name__}", parts)]

    def looks(self, batch: Batch) -> list[Picture]:
        assert batch.target is not None and self.target_tokenizer is not None
        target = self.target_tokenizer.written(batch.target)
        maps = last(self.attention(batch), cross=True)
        if maps is None:
            return []
        return across(
            (self.tokenizer, batch.input, self.embed), (self.target_tokenizer, target, self.target_embed), maps
        )
