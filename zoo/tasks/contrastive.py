"""Bring together what belongs together: CLIP over images and texts, sentence encoders over pairs of sentences."""

# Shapes: B batch, T tokens, D model width, E width of the shared space.

import math
from collections.abc import Callable

import torch
import torch.distributed
import torch.nn.functional as F
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn
from torch.distributed._functional_collectives import all_gather_tensor_autograd

from zoo.nn import Backbone, Mean, Pool
from zoo.pictures import Column, Picture, Sheet
from zoo.tasks.metrics import distributed, every
from zoo.tasks.schedule import Schedule, WarmupCosine
from zoo.tasks.sharded import Group
from zoo.tasks.showing import decoded
from zoo.tasks.task import Task, extended
from zoo.tokenizers import Batch, Embed, Scores, Tokenizer, Tokens

CHUNK = 1024  # inputs that are compared with all targets at once
HOTTEST = math.log(100)  # the scale is kept below 100, as CLIP's is


class Contrastive(Task):
    """Tell each pair's halves from those of the batch's other pairs (van den Oord et al. 2018; CLIP, Radford et al.
    2021).

    One tower reads both halves (sentence encoders: Reimers & Gurevych 2019) unless there is a ``target_backbone``.
    ``width`` is that of the space into which linear maps without bias project; None compares the pooled states.
    ``temperature`` is the initial one; it is learned.
    """

    monitor = ("val/recall@1", "max")

    def __init__(
        self,
        backbone: Backbone,
        tokenizer: Tokenizer,
        target_backbone: Backbone | None = None,
        target_tokenizer: Tokenizer | None = None,
        pool: Callable[[int], Pool] = Mean,
        target_pool: Callable[[int], Pool] | None = None,
        width: int | None = None,
        temperature: float = 0.07,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        schedule: Schedule = WarmupCosine(),
    ):
        super().__init__(optimizer, schedule)
        if target_backbone is not None and width is None and target_backbone.dim != backbone.dim:
            raise ValueError(f"towers of widths {backbone.dim} and {target_backbone.dim} need a common width")
        self.tokenizer, self.target_tokenizer = tokenizer, target_tokenizer or tokenizer
        self.embed, self.pool, self.backbone = tokenizer.embed(backbone.dim), pool(backbone.dim), backbone
        self.projection = nn.Linear(backbone.dim, width, bias=False) if width else None
        self.begin(backbone, "embed", "pool", *(["projection"] if width else []))
        if target_backbone is None:
            if self.target_tokenizer != tokenizer:
                raise ValueError("one tower reads both halves, so give equal tokenizers, or a target_backbone")
            self.target_embed, self.target_pool, self.target_backbone = self.embed, self.pool, backbone
            self.target_projection = self.projection
        else:
            dim = target_backbone.dim
            self.target_embed, self.target_pool = self.target_tokenizer.embed(dim), (target_pool or pool)(dim)
            self.target_backbone = target_backbone
            self.target_projection = nn.Linear(dim, width, bias=False) if width else None
            parts = ["target_embed", "target_pool", *(["target_projection"] if width else [])]
            self.begin(target_backbone, *parts)
        self.kept: list[tuple[Tensor, Tensor]] = []  # the vectors of the pairs that were evaluated
        self.scale = nn.Parameter(torch.tensor(-math.log(temperature), device="cpu"))  # never without values

    def forward(self, tokens: Tokens) -> Tensor:
        """Tokens -> (B, E) unit vectors."""
        return self.encode(tokens, self.embed, self.pool, self.backbone, self.projection)

    def target(self, tokens: Tokens) -> Tensor:
        """The same for the other half of a pair."""
        parts = (self.target_embed, self.target_pool, self.target_backbone, self.target_projection)
        return self.encode(tokens, *parts)

    def encode(self, tokens: Tokens, embed: Embed, pool: Pool, backbone: Backbone, projection) -> Tensor:
        states, padding = extended(tokens, embed, pool, backbone)
        return unit(pool(states, padding), projection)

    def states(self, tokens: Tokens) -> tuple[Tensor, Tensor | None]:
        return extended(tokens, self.embed, self.pool, self.backbone)

    def forward_head(self, states: Tensor, pre_logits: bool = False, padding: Tensor | None = None) -> Tensor:
        x = self.pool(states, padding)
        return x if pre_logits else unit(x, self.projection)

    def observe(self, batch: Batch) -> None:
        self(batch.input)
        if batch.target is not None:
            self.target(batch.target)

    def similarity(self, input: Tokens, target: Tokens) -> Tensor:
        """(B, B') logits: scaled cosines of every input with every target."""
        return self.scale.exp() * self(input) @ self.target(target).mT

    def step(self, batch: Batch, training: bool) -> Scores:
        """ "loss": the mean of both directions' cross-entropies; "accuracy": how often the right half is nearest.  In
        training each half is told from those of all processes' batches, as in one large batch."""
        assert batch.target is not None, "Contrastive needs pairs"
        a, b = self(batch.input).float(), self.target(batch.target).float()
        if not training:
            self.kept.append((a.detach().cpu(), b.detach().cpu()))
        spread = training and distributed()
        all_a, all_b = (together(side, self.readers) if spread else side for side in (a, b))
        first = len(a) * torch.distributed.get_rank(self.readers) if spread else 0
        truth = torch.arange(first, first + len(a), device=a.device)
        sides = [self.scale.exp() * own @ others.mT for own, others in ((a, all_b), (b, all_a))]
        loss = sum(F.cross_entropy(side, truth, reduction="sum") for side in sides) / 2
        count = torch.tensor(len(a), device=a.device)
        return {"loss": (loss, count), "accuracy": ((sides[0].argmax(-1) == truth).sum(), count)}

    def measure(self, texts: list[tuple[str, str]]) -> dict[str, float]:
        """Recall over the whole split: how often an input's target is among its nearest 1, 5 and 10 of all."""
        kept, self.kept = every([(a, b) for a, b in self.kept], self.readers), []
        if not kept:
            return {}
        a, b = (torch.cat(side) for side in zip(*kept, strict=True))
        rank = torch.cat([ranks(a[i : i + CHUNK], b, b[i : i + CHUNK]) for i in range(0, len(a), CHUNK)])
        return {f"recall@{k}": float((rank < k).float().mean()) for k in (1, 5, 10)}

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        self.scale.data.clamp_(max=HOTTEST)

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """(B, E) unit vectors of the inputs."""
        return self(batch.input)

    def sheets(self, batch: Batch) -> list[Picture]:
        assert batch.target is not None and self.target_tokenizer is not None
        cosines = (self(batch.input).float() @ self.target(batch.target).float().mT).cpu()
        parts = [
            decoded("input", self.tokenizer, batch.input),
            Column("cosine with each target; the nearest framed, blue if right", "values", list(cosines)),
            decoded("target", self.target_tokenizer, batch.target),
        ]
        return [Sheet("similarities", "How near each input is to each target", parts)]


def unit(x: Tensor, projection: nn.Module | None) -> Tensor:
    """(B, D) -> (B, E) vectors of length 1."""
    return F.normalize(x if projection is None else projection(x), dim=-1)


def together(side: Tensor, group: Group) -> Tensor:
    """(N, E) of each process -> (W N, E) of all, through which gradients flow back to where the vectors were made."""
    return all_gather_tensor_autograd(side, gather_dim=0, group=group or torch.distributed.group.WORLD)


def ranks(a: Tensor, b: Tensor, own: Tensor) -> Tensor:
    """(N,) how many of all targets (M, E) are nearer to each input (N, E) than its own target (N, E) is."""
    return (a @ b.mT > (a * own).sum(-1, keepdim=True) + 1e-6).sum(-1)
