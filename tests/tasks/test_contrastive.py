"""Contrastive learning: the loss, both directions, one tower and two, recall over a whole split."""

import math
from functools import partial

import lightning.pytorch as pl
import pytest
import torch
import torch.nn.functional as F

from zoo.data import Pairs
from zoo.models import BERT, ViT
from zoo.nn import Last, Pooler
from zoo.tasks import Contrastive
from zoo.tokenizers import BPE, Batch, Patches, Tokens


def towers(**more) -> Contrastive:
    image, text = Patches(8, 4, channels=1), BPE()
    return Contrastive(ViT(16, 1, 2, grid=2, prefix=0), image, BERT(24, 1, 2, length=32), text, width=8, **more).eval()


def batch(size: int = 5) -> Batch:
    text = Tokens(
        torch.randint(4, 200, (size, 6)), torch.arange(6).expand(size, 6) < torch.arange(2, 2 + size)[:, None]
    )
    return Batch(Tokens(torch.randn(size, 4, 16)), text)


@torch.no_grad()
def test_the_loss_is_the_mean_of_both_directions():
    task, pairs = towers(temperature=0.5), batch()
    a, b = task(pairs.input), task.target(pairs.target)
    assert torch.allclose(a.norm(dim=-1), torch.ones(5)) and torch.allclose(b.norm(dim=-1), torch.ones(5))
    logits = a @ b.mT / 0.5
    assert torch.allclose(task.similarity(pairs.input, pairs.target), logits, atol=1e-5)
    rows = -torch.stack([logits[i].log_softmax(0)[i] for i in range(5)]).mean()
    columns = -torch.stack([logits[:, i].log_softmax(0)[i] for i in range(5)]).mean()
    total, count = task.step(pairs, training=False)["loss"]
    assert count == 5 and math.isclose(float(total / count), float((rows + columns) / 2), rel_tol=1e-5)


def test_recall_is_over_all_pairs_that_were_evaluated():
    task = towers()
    vectors = F.normalize(torch.randn(30, 8), dim=-1)
    task.kept = [(vectors[:20], vectors[:20]), (vectors[20:], vectors[20:].flip(0))]
    found = task.measure([])
    assert found["recall@1"] == pytest.approx(20 / 30) and task.kept == []
    a, b = torch.eye(8)[:2], torch.eye(8)[:2] + 2 * torch.eye(8)[:2].flip(0)
    task.kept = [(a, b)]  # each one's own target is the second nearest
    found = task.measure([])
    assert found["recall@1"] == 0 and found["recall@5"] == 1
    same = torch.ones(4, 8) / math.sqrt(8)
    task.kept = [(same, same)]
    assert task.measure([])["recall@1"] == 1  # equal targets are equally right


def test_one_tower_reads_both_halves():
    task = Contrastive(BERT(16, 1, 2, length=32), BPE(), pool=Pooler)
    assert task.target_backbone is task.backbone and task.target_embed is task.embed
    with pytest.raises(ValueError, match="one tower reads both"):
        Contrastive(BERT(16, 1, 2, length=32), BPE(), target_tokenizer=Patches(8, 4))
    with pytest.raises(ValueError, match="widths 16 and 24"):
        Contrastive(BERT(16, 1, 2), BPE(), BERT(24, 1, 2), pool=Last)


def test_it_learns_to_tell_digits_apart(tmp_path):
    torch.manual_seed(0)
    image, text = Patches(8, 4, channels=1), BPE()
    halves = ViT(32, 1, 4, grid=2, prefix=0), image, BERT(32, 1, 4, length=16), text
    task = Contrastive(*halves, width=16, optimizer=partial(torch.optim.AdamW, lr=5e-3))
    data = Pairs("digits", source="image", target="text", batch_size=32)
    trainer = pl.Trainer(
        max_epochs=8,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        default_root_dir=tmp_path,
        num_sanity_val_steps=0,
    )
    trainer.fit(task, data)
    assert trainer.callback_metrics["val/recall@1"] > 0.5  # ten words: guessing gives 0.1
    path = tmp_path / "it.ckpt"
    trainer.save_checkpoint(path)
    again = Contrastive.load_from_checkpoint(path, weights_only=True)
    assert torch.equal(again.scale, task.scale) and again.scale <= math.log(100)


def one_of_two(rank: int, folder: str) -> None:
    """The gradients of half of a batch in one of two processes."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    task, pairs = torch.load(f"{folder}/whole.pt", weights_only=False)
    half = slice(4 * rank, 4 * rank + 4)
    text = Tokens(pairs.target.value[half], pairs.target.padding[half])
    total, count = task.step(Batch(Tokens(pairs.input.value[half]), text), training=True)["loss"]
    (total / count).backward()
    for weight in task.parameters():
        torch.distributed.all_reduce(weight.grad)
        weight.grad /= 2  # what DDP does
    if rank == 0:
        torch.save([weight.grad for weight in task.parameters()], f"{folder}/grads.pt")
    torch.distributed.destroy_process_group()


def test_two_processes_learn_what_one_does_from_the_whole_batch(tmp_path):
    task, pairs = towers(), batch(8)
    torch.save((task, pairs), tmp_path / "whole.pt")
    torch.multiprocessing.spawn(one_of_two, (str(tmp_path),), nprocs=2)
    total, count = task.step(pairs, training=True)["loss"]
    (total / count).backward()
    for weight, found in zip(task.parameters(), torch.load(tmp_path / "grads.pt"), strict=True):
        assert torch.allclose(found, weight.grad, atol=1e-6)
    assert max(float(weight.grad.abs().max()) for weight in task.parameters()) > 1e-2
