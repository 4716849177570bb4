"""Frozen layers, less memory, and rates by depth: what fine-tuning asks of a task."""

from functools import partial

import pytest
import timm
import timm.optim
import torch
from torch import nn

from tests.tasks.conftest import TOKENIZERS, Repeat, backbone, batch, both, tokens
from zoo.models import ESM, T5, DeBERTa2, ViT
from zoo.nn import Backbone, Causal, ClassToken, Context
from zoo.tasks import CausalLM, Classify, Contrastive, MaskedLM, Multimodal, Seq2Seq
from zoo.tokenizers import Patches


def classifier(dropout: float = 0.0) -> Classify:
    vit = ViT(32, 3, 4, grid=4, prefix=1, dropout=dropout)
    return Classify(vit, TOKENIZERS["image"], 3, pool=ClassToken)


def trained(task: nn.Module) -> set[str]:
    return {name for name, weight in task.named_parameters() if weight.requires_grad}


def below(task: nn.Module, *prefixes: str) -> set[str]:
    return {name for name, _ in task.named_parameters() if name.startswith(prefixes)}


@pytest.mark.parametrize("layers", [0, 2, 3, None])
def test_what_is_frozen(layers):
    task = classifier()
    everything = trained(task)
    task.freeze(layers)
    frozen = below(
        task, "embed.", "pool.", "backbone.position.", *(f"backbone.blocks.{i}." for i in range(layers or 0))
    )
    frozen |= below(task, "backbone.") if layers is None else set()
    assert trained(task) == everything - frozen
    task.freeze(1)
    assert trained(task) == everything - below(task, "embed.", "pool.", "backbone.position.", "backbone.blocks.0.")
    task.unfreeze()
    assert trained(task) == everything


@pytest.mark.filterwarnings("ignore:Found .* in eval mode")
def test_training_moves_the_rest_alone(trainer):
    task = classifier(dropout=0.5)
    task.freeze(2)
    before, modes = {name: value.clone() for name, value in task.state_dict().items()}, []
    step = task.training_step
    task.training_step = lambda *inputs: modes.append([part.training for part in task.backbone.blocks]) or step(*inputs)
    trainer(max_epochs=2).fit(task, Repeat(batch("image"), 2))
    assert len(modes) == 4 and all(mode == [False, False, True] for mode in modes)
    moved = {name for name, value in task.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == trained(task)


def test_frozen_layers_compute_in_training_what_they_compute_afterwards():
    task, data = classifier(dropout=0.5), tokens("image")
    task.freeze(2)
    task.train()
    states = [task.forward_intermediates(data, [1], intermediates_only=True)[0] for _ in range(2)]
    assert torch.equal(*states)
    assert not torch.equal(task.forward_features(data), task.forward_features(data))  # the third block drops
    task.unfreeze()
    assert all(part.training for part in task.modules())
    states = [task.forward_intermediates(data, [1], intermediates_only=True)[0] for _ in range(2)]
    assert not torch.equal(*states)


def test_every_backbone_and_embedding_of_a_task_is_frozen():
    text = TOKENIZERS["text"]
    clip = Contrastive(backbone(), TOKENIZERS["image"], backbone(), text, width=8)
    clip.freeze()
    assert trained(clip) == {"projection.weight", "target_projection.weight", "scale"}
    pair = Seq2Seq(both(), TOKENIZERS["image"], text, tie=False)
    pair.freeze()
    assert trained(pair) == below(pair, "head.")
    pair.freeze(1)
    assert trained(pair) == below(
        pair,
        *(f"backbone.{half}.{part}" for half in ("encoder", "decoder") for part in ("blocks.1.", "last_norm")),
        "head.",
    )
    several = Multimodal(backbone(Causal()), {m: partial(CausalLM, tokenizer=t) for m, t in TOKENIZERS.items()})
    several.freeze()
    assert trained(several) == below(several, *(f"tasks.{m}.head" for m in TOKENIZERS)) - {"tasks.text.head.out.weight"}


def test_what_was_never_trained_stays_so():
    task = MaskedLM(ESM(32, 2, 4), TOKENIZERS["text"])
    before = trained(task)
    assert before != below(task, "")
    task.freeze()
    task.unfreeze()
    assert trained(task) == before


def test_layers_that_there_are_not():
    for layers in (-1, 4):
        with pytest.raises(
            ValueError, match=f"layers={layers} of 3 blocks; give a number from 0 to 3, or None for all"
        ):
            classifier().freeze(layers)


# ---- activations that are computed again


CASES = {
    "vit": (lambda: ViT(32, 3, 4, grid=3, prefix=0, dropout=0.2, drop_path=0.3), 1),
    "deberta": (lambda: DeBERTa2(32, 2, 4, furthest=8, buckets=6, dropout=0.2), 1),
    "t5": (lambda: T5(32, 2, 4, 16, 64, dropout=0.2), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_equal(name):
    make, inputs = CASES[name]
    model, x = make(), torch.randn(2, 9, 32)
    halves = [part for part in model.modules() if isinstance(part, Backbone)]
    runs: list[int] = []
    for half in halves:
        half.blocks[0].register_forward_pre_hook(lambda *_: runs.append(1))

    def gradients(enable: bool) -> tuple[torch.Tensor, list[torch.Tensor]]:
        for half in halves:
            half.set_grad_checkpointing(enable)
        model.zero_grad()
        runs.clear()
        torch.manual_seed(1)
        y = model(*[x] * inputs)
        y.square().sum().backward()
        return y, [weight.grad.clone() for weight in model.parameters()]

    y, expected = gradients(False)
    assert len(runs) == len(halves)
    again, found = gradients(True)
    assert len(runs) == 2 * len(halves)
    assert torch.equal(again, y)
    assert all((a - b).abs().max() <= 1e-5 * b.abs().max() for a, b in zip(found, expected, strict=True))
    with torch.no_grad():
        model(*[x] * inputs)
    assert len(runs) == 3 * len(halves)


def test_a_task_switches_all_of_its_backbones():
    task = Seq2Seq(both(), TOKENIZERS["text"])
    runs: list[int] = []
    for half in (task.backbone.encoder, task.backbone.decoder):
        half.blocks[1].register_forward_pre_hook(lambda *_: runs.append(1))
    task.set_grad_checkpointing()
    total, weight = task.step(batch("text", "text"), training=True)["loss"]
    (total / weight).backward()
    assert len(runs) == 4
    task.set_grad_checkpointing(False)
    task.step(batch("text", "text"), training=True)["loss"][0].backward()
    assert len(runs) == 6
    assert len(task.generate(tokens("text"), 3).tokens) == 4  # a cache is filled once


def test_states_of_a_bare_backbone():
    model, x, states = ViT(32, 3, 4, grid=3, prefix=0).eval(), torch.randn(2, 9, 32), []
    y = model(x, states=states)
    assert len(states) == 3 and torch.equal(model.last_norm(states[-1]), y)
    context = Context(model.position, torch.arange(9), torch.arange(9), plain=True)
    assert torch.equal(model.blocks[2](states[1], context), states[2])


# ---- rates by depth


def test_layer_decay_is_timm_s():
    theirs = timm.create_model(
        "vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=32, depth=3, num_heads=4, num_classes=5
    )
    ours = Classify(ViT(32, 3, 4, grid=4), Patches(32, 8), 5, pool=ClassToken)

    def scales(model: nn.Module) -> dict[tuple[float, float], int]:
        """How many numbers are trained at each (rate, decay)."""
        groups = timm.optim.param_groups_layer_decay(model, 0.05, model.no_weight_decay(), layer_decay=0.7)
        return {(g["lr_scale"], g["weight_decay"]): sum(w.numel() for w in g["params"]) for g in groups}

    assert scales(ours) == scales(theirs)


def test_no_weight_decay_but_for_linear_maps():
    task = classifier()
    maps = {f"{path}.weight" for path, part in task.named_modules() if isinstance(part, nn.Linear)}
    assert task.no_weight_decay() == trained(task) - maps
