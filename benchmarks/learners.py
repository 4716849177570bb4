"""The same model to be trained in several libraries, for benchmarks/train.py: each takes one step on a batch."""

# Shapes: B samples, T tokens, V vocabulary.

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, HEADS = 384, 6
BERT_VOCABULARY, GPT_VOCABULARY, T5_VOCABULARY = 30522, 50257, 32128
MASK, RATE = 103, 0.15
CLASSES = 1000
BATCHES = 8  # different ones, which take turns

Step = Callable[[], Tensor]  # a whole step of training -> its loss
Loss = Callable[[], Tensor]


@dataclass(frozen=True)
class Learner:
    """``make(precision)`` builds a model and its data, and answers with a step."""

    library: str
    way: str
    make: Callable[[str], Step]

    @property
    def key(self) -> tuple[str, str]:
        return self.library, self.way


def precise(precision: str) -> AbstractContextManager:
    return torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else nullcontext()


def loop(precision: str, optimizer: torch.optim.Optimizer, losses: Iterator[Loss]) -> Step:
    """The plain loop that everybody writes."""

    def step() -> Tensor:
        optimizer.zero_grad()
        with precise(precision):
            loss = next(losses)()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def peer(precision: str, model: nn.Module, losses: list[Loss]) -> Step:
    """With AdamW as it comes, which is what a user of each library writes."""
    model.train()
    return loop(precision, torch.optim.AdamW(model.parameters(), lr=1e-4), cycle(losses))


def ours(precision: str, task: Any, batches: list[Callable[[], Any]], compiled: bool = False) -> Step:
    """A task with what it does by default: its own optimizer, and memory that is kept."""
    import zoo
    from zoo.nn import Block
    from zoo.tasks.optimizer import decay_groups, fuse

    zoo.keep_freed_memory()
    task.train()
    if compiled:
        for part in task.modules():
            if isinstance(part, Block):
                part.compile()

    def loss(batch: Callable[[], Any]) -> Tensor:
        total, weight = task.step(batch(), training=True)["loss"]
        return total / weight

    optimizer = fuse(torch.optim.AdamW(decay_groups(task), lr=1e-4))
    return loop(precision, optimizer, cycle([lambda batch=batch: loss(batch) for batch in batches]))


def vocabulary(size: int) -> Any:
    """A tokenizer of so many ids, whose text nobody needs."""
    from zoo.tokenizers import Ids

    return Ids(size, pad=0, bos=1, mask=MASK)


# ---- masked language model: 8 texts of up to 256 tokens


def texts(full: bool) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Ids (B, T), which are real, and which are hidden; lengths are lognormal with the median 90, cut at 256, and the
    longest has 256; 0.43 of the places are real, or all."""
    chance = torch.Generator().manual_seed(0)
    found = []
    while len(found) < BATCHES:
        length = (90 * torch.exp(0.6 * torch.randn(8, generator=chance))).long().clamp(8, 256)
        if full:
            length.fill_(256)
        elif int(length.max()) < 256 or not 0.41 < float(length.sum()) / 2048 < 0.45:
            continue
        ids = torch.randint(1000, BERT_VOCABULARY, (8, 256), generator=chance)
        real = torch.arange(256) < length[:, None]
        noise = torch.rand(8, 256, generator=chance).masked_fill(~real, 2.0)
        hidden = noise.argsort(1).argsort(1) < (length * RATE).round()[:, None]
        found.append((ids.masked_fill(~real, 0), real, hidden))
    return found


def bert(full: bool) -> Callable[[str], Step]:
    def make(precision: str) -> Step:
        from transformers import BertConfig, BertForMaskedLM

        sizes = {"num_hidden_layers": 6, "num_attention_heads": HEADS, "intermediate_size": 4 * WIDTH}
        off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        config = BertConfig(vocab_size=BERT_VOCABULARY, hidden_size=WIDTH, max_position_embeddings=256, **sizes, **off)
        return masked(precision, BertForMaskedLM(config), full)

    return make


def modernbert(full: bool) -> Callable[[str], Step]:
    def make(precision: str) -> Step:
        from transformers import ModernBertConfig, ModernBertForMaskedLM

        sizes = {"num_hidden_layers": 6, "num_attention_heads": HEADS, "intermediate_size": 8 * WIDTH // 3}
        special = {
            "pad_token_id": 0,
            "bos_token_id": 101,
            "eos_token_id": 102,
            "cls_token_id": 101,
            "sep_token_id": 102,
        }
        config = ModernBertConfig(
            vocab_size=BERT_VOCABULARY, hidden_size=WIDTH, sparse_prediction=True, **sizes, **special
        )
        return masked(precision, ModernBertForMaskedLM(config), full)

    return make


def masked(precision: str, model: nn.Module, full: bool) -> Step:
    losses = []
    for ids, real, hidden in texts(full):
        words = {"input_ids": ids.masked_fill(hidden, MASK), "labels": ids.masked_fill(~hidden, -100)}
        words |= {} if full else {"attention_mask": real.long()}
        losses.append(lambda words=words: model(**words).loss)
    return peer(precision, model, losses)


def our_bert(full: bool, compiled: bool = False) -> Callable[[str], Step]:
    def make(precision: str) -> Step:
        import zoo
        from zoo.tokenizers import Batch, Tokens

        backbone = zoo.BERT(dim=WIDTH, depth=6, heads=HEADS, hidden=4 * WIDTH, length=256)
        task = zoo.MaskedLM(backbone, vocabulary(BERT_VOCABULARY), head=zoo.TransformHead)
        batches = [
            lambda ids=ids, real=real, number=number: Batch(
                Tokens(ids, None if full else real), key=torch.arange(8) + 8 * number
            )
            for number, (ids, real, _) in enumerate(texts(full))
        ]
        return ours(precision, task, batches, compiled)

    return make


# ---- causal language model: 4 blocks of 256 tokens


def blocks() -> list[Tensor]:
    """(B, T + 1) ids."""
    chance = torch.Generator().manual_seed(0)
    return [torch.randint(0, GPT_VOCABULARY, (4, 257), generator=chance) for _ in range(BATCHES)]


def gpt2(precision: str) -> Step:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_embd": WIDTH, "n_layer": 6, "n_head": HEADS, "n_positions": 256}
    model = GPT2LMHeadModel(GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **sizes))

    def loss(ids: Tensor) -> Tensor:
        logits = model(input_ids=ids[:, :-1]).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())

    return peer(precision, model, [lambda ids=ids: loss(ids) for ids in blocks()])


def nanogpt(folder: Path, compiled: bool = False) -> Callable[[str], Step]:
    """Its own model.py, in a folder of the user's, and its own optimizer."""

    def make(precision: str) -> Step:
        sys.path.insert(0, str(folder))
        from model import GPT, GPTConfig  # type: ignore[import-not-found]

        sizes = {"n_embd": WIDTH, "n_layer": 6, "n_head": HEADS, "block_size": 256}
        model = GPT(GPTConfig(vocab_size=GPT_VOCABULARY, dropout=0.0, bias=True, **sizes))
        optimizer = model.configure_optimizers(0.1, 1e-4, (0.9, 0.95), "cpu")
        if compiled:
            model.compile()
        steps = [lambda ids=ids: model(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())[1] for ids in blocks()]
        return loop(precision, optimizer, cycle(steps))

    return make


def our_gpt2(compiled: bool = False) -> Callable[[str], Step]:
    def make(precision: str) -> Step:
        import zoo
        from zoo.tokenizers import Batch, Tokens

        backbone = zoo.GPT2(dim=WIDTH, depth=6, heads=HEADS, length=257)
        task = zoo.CausalLM(backbone, vocabulary(GPT_VOCABULARY))
        return ours(precision, task, [lambda ids=ids: Batch(Tokens(ids)) for ids in blocks()], compiled)

    return make


# ---- encoder and decoder: 8 pairs of 128 tokens


def pairs() -> list[tuple[Tensor, Tensor]]:
    chance = torch.Generator().manual_seed(0)
    return [
        (
            torch.randint(2, T5_VOCABULARY, (8, 128), generator=chance),
            torch.randint(2, T5_VOCABULARY, (8, 128), generator=chance),
        )
        for _ in range(BATCHES)
    ]


def t5(precision: str) -> Step:
    from transformers import T5Config, T5ForConditionalGeneration

    sizes = {"d_model": WIDTH, "d_kv": WIDTH // HEADS, "d_ff": 4 * WIDTH, "num_layers": 4, "num_heads": HEADS}
    model = T5ForConditionalGeneration(
        T5Config(vocab_size=T5_VOCABULARY, dropout_rate=0.0, decoder_start_token_id=0, **sizes)
    )
    return peer(precision, model, [lambda pair=pair: model(input_ids=pair[0], labels=pair[1]).loss for pair in pairs()])


def our_t5(compiled: bool = False) -> Callable[[str], Step]:
    def make(precision: str) -> Step:
        import zoo
        from zoo.tokenizers import Batch, Tokens

        backbone = zoo.T5(dim=WIDTH, depth=4, heads=HEADS, hidden=4 * WIDTH)
        task = zoo.Seq2Seq(backbone, vocabulary(T5_VOCABULARY))
        batches = [
            lambda source=source, target=target: Batch(Tokens(source), Tokens(target)) for source, target in pairs()
        ]
        return ours(precision, task, batches, compiled)

    return make


# ---- images: 16 of 224 x 224 pixels, patches of 16, ViT-Ti


def pictures() -> list[tuple[Tensor, Tensor]]:
    chance = torch.Generator().manual_seed(0)
    return [
        (torch.rand(16, 3, 224, 224, generator=chance), torch.randint(CLASSES, (16,), generator=chance))
        for _ in range(2)
    ]


def timm(precision: str) -> Step:
    import timm as library

    model = library.create_model("vit_tiny_patch16_224", num_classes=CLASSES)

    def loss(image: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(model(image).float(), label)

    return peer(precision, model, [lambda pair=pair: loss(*pair) for pair in pictures()])


def our_vit(compiled: bool = False) -> Callable[[str], Step]:
    def make(precision: str) -> Step:
        import zoo
        from zoo.tokenizers import Batch, Tokens

        patches = zoo.Patches(224, 16)
        backbone = zoo.ViT(dim=192, depth=12, heads=3, grid=14)
        task = zoo.Classify(backbone, patches, CLASSES, pool=zoo.ClassToken)
        batches = [  # cut into patches in the step, as timm does
            lambda image=image, label=label: Batch(Tokens(patches.patchify(image)), label=label)
            for image, label in pictures()
        ]
        return ours(precision, task, batches, compiled)

    return make
