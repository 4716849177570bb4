"""The optimizer that a task makes: the rate of each layer as it is in training, and the kernels that it may use."""

from functools import partial

import lightning.pytorch as pl
import pytest
import timm
import timm.optim
import torch
from torch import nn

from tests.tasks.conftest import TOKENIZERS, Repeat, backbone, batch, both
from zoo.callbacks import LayerDecay
from zoo.models import ViT
from zoo.nn import Causal, ClassToken
from zoo.optim import MuonAdamW
from zoo.tasks import CausalLM, Classify, Multimodal, Seq2Seq, WarmupCosine, WarmupLinear
from zoo.tasks.optimizer import fuse
from zoo.tokenizers import Patches

pytestmark = pytest.mark.filterwarnings("ignore")


class Rates(pl.Callback):
    """The rates at the last step of training, as the schedule left them for it."""

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        self.groups = [dict(group) for group in trainer.optimizers[0].param_groups]
        self.factor = module.schedule.factor(trainer.global_step, trainer.max_steps)

    @property
    def scales(self) -> list[tuple[float, nn.Parameter]]:
        return [(group["lr"] / self.factor, weight) for group in self.groups for weight in group["params"]]


def trained(trainer, task, data, decay: float = 0.7) -> Rates:
    seen = Rates()
    fitting = trainer(max_steps=5, max_epochs=-1, callbacks=[LayerDecay(decay), seen])
    fitting.fit(task, Repeat(data))
    return seen


def counted(groups: list[dict], scales: list[float]) -> dict[tuple[float, bool], int]:
    """How many numbers are trained at each rate, with weight decay or without."""
    keys = [(round(scale, 6), group["weight_decay"] > 0) for group, scale in zip(groups, scales, strict=True)]
    return {key: sum(weight.numel() for weight in group["params"]) for key, group in zip(keys, groups, strict=True)}


def test_layer_decay_in_training_is_timm_s(trainer):
    shape = {"img_size": 8, "patch_size": 2, "embed_dim": 32, "depth": 3, "num_heads": 4, "num_classes": 3}
    theirs = timm.create_model("vit_tiny_patch16_224", in_chans=1, **shape)
    groups = timm.optim.param_groups_layer_decay(theirs, 0.05, theirs.no_weight_decay(), layer_decay=0.7)
    vit, optimizer = ViT(32, 3, 4, grid=4), partial(torch.optim.AdamW, lr=0.01)
    task = Classify(vit, Patches(8, 2, 1), 3, pool=ClassToken, optimizer=optimizer, schedule=WarmupCosine(0.5))
    seen = trained(trainer, task, batch("image"))
    assert 0 < seen.factor < 1
    scales = [group["lr"] / seen.factor / 0.01 for group in seen.groups]
    assert counted(seen.groups, scales) == counted(groups, [group["lr_scale"] for group in groups])
    assert seen.groups[0]["lr"] / seen.factor == pytest.approx(0.01)  # what is logged is the head's


def test_muon_moves_the_matrices_of_the_blocks(trainer):
    task = CausalLM(
        backbone(Causal()), TOKENIZERS["text"], optimizer=partial(MuonAdamW, lr=0.02), schedule=WarmupLinear(2, 0.5)
    )
    inside = {n for n, w in task.named_parameters() if ".blocks." in n and w.dim() == 2}
    assert len(inside) == 12 and all(name.endswith(".weight") for name in inside)
    fitting = trainer(max_steps=3, max_epochs=-1)
    fitting.fit(task, Repeat(batch("text")))
    (optimizer,) = fitting.optimizers
    names = {weight: name for name, weight in task.named_parameters()}
    found = {g["name"]: {names[w] for w in g["params"]} for g in optimizer.param_groups}
    assert found["decay_muon"] == inside
    assert set.union(*found.values()) == set(names.values()) and sum(map(len, found.values())) == len(names)
    assert {name for name in found if "muon" not in name} == {"no_decay"}  # the head is the embedding's table
    steps = {g["muon"]: g["lr"] for g in optimizer.param_groups}
    assert steps[True] / steps[False] == pytest.approx(0.02 / 0.003)


def test_muon_alone_is_refused(trainer):
    task = CausalLM(backbone(Causal()), TOKENIZERS["text"], optimizer=torch.optim.Muon)
    with pytest.raises(ValueError, match="Muon moves matrices alone, and a model has other parameters: take MuonAdamW"):
        trainer().fit(task, Repeat(batch("text")))


def test_layer_decay_of_muon(trainer):
    task = CausalLM(backbone(Causal()), TOKENIZERS["text"], tie=False, optimizer=partial(MuonAdamW, lr=0.02))
    seen = trained(trainer, task, batch("text"), 0.5)
    names = {weight: name for name, weight in task.named_parameters()}
    scales = {names[weight]: scale for scale, weight in seen.scales}
    assert scales["head.out.weight"] == pytest.approx(0.003) and scales["embed.table.weight"] == pytest.approx(
        0.003 / 8
    )
    assert scales["backbone.blocks.1.mixer.fn.q.weight"] == pytest.approx(0.02 / 2)
    assert scales["backbone.blocks.0.mixer.fn.q.weight"] == pytest.approx(0.02 / 4)
    assert scales["backbone.blocks.0.mixer.norm.weight"] == pytest.approx(0.003 / 4)


def test_the_layers_of_other_tasks():
    pair = Seq2Seq(both(), TOKENIZERS["image"], TOKENIZERS["text"], tie=False)
    layers = {name: pair.layers()[weight] for name, weight in pair.named_parameters()}
    assert layers["embed.projection.weight"] == layers["target_embed.table.weight"] == 0
    assert layers["backbone.encoder.blocks.0.mixer.norm.weight"] == 1
    assert layers["backbone.decoder.blocks.1.cross.norm.weight"] == layers["backbone.decoder.last_norm.weight"] == 2
    assert layers["head.out.weight"] == 3
    several = Multimodal(backbone(Causal()), {m: partial(CausalLM, tokenizer=t) for m, t in TOKENIZERS.items()})
    layers = {name: several.layers()[weight] for name, weight in several.named_parameters()}
    assert {layers[name] for name in layers if ".embed." in name} == {0}
    assert {layers[name] for name in layers if ".head." in name} == {3}


def test_a_decay_that_is_none():
    for decay in (0.0, 1.5, -1.0):
        with pytest.raises(ValueError, match=f"layer decay {decay}: give a share of the learning rate"):
            Classify(ViT(32, 3, 4, grid=4), Patches(8, 2, 1), 3).set_layer_decay(decay)


def fused(make, *weights: torch.Tensor, **settings) -> bool | None:
    return fuse(make(list(weights), **settings)).param_groups[0].get("fused")


def test_kernels():
    weight = nn.Parameter(torch.zeros(2, 2))
    assert fused(torch.optim.AdamW, weight) is fused(torch.optim.Adam, weight) is fused(torch.optim.SGD, weight) is True
    assert (
        fused(torch.optim.AdamW, weight, foreach=True) is None and fused(torch.optim.SGD, weight, fused=False) is False
    )
    assert fused(torch.optim.Adagrad, weight) is False  # its kernel is a CPU's alone
    assert fused(torch.optim.RAdam, weight) is fused(torch.optim.Muon, weight) is None
    assert fused(torch.optim.AdamW, nn.Parameter(torch.zeros(2, device="meta"))) is False
    assert fused(torch.optim.AdamW, weight, nn.Parameter(torch.zeros(2, dtype=torch.bfloat16))) is True


@pytest.mark.parametrize("make", [torch.optim.AdamW, torch.optim.Adam, partial(torch.optim.SGD, momentum=0.9)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_kernels_compute_the_same(make, dtype):
    results = []
    for change in (fuse, lambda optimizer: optimizer):
        weight = nn.Parameter(torch.linspace(-1, 1, 64).to(dtype))
        optimizer = change(make([weight], lr=0.01, weight_decay=0.1))
        for step in range(5):
            weight.grad = torch.sin(weight.detach() * 3 + step)
            optimizer.step()
        results.append(weight.detach().float())
    assert torch.allclose(*results, atol=1e-6 if dtype == torch.float32 else 2e-2)
    assert not torch.equal(results[0], torch.linspace(-1, 1, 64))
