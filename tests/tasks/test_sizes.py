"""Images of different sizes in one batch, and sounds of different lengths: each sample is what it is alone."""

from functools import partial

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from PIL import Image

from tests.tasks.conftest import SOUND, backbone, both, raw
from zoo.data import CropFlip, Images
from zoo.models import ViT
from zoo.nn import MLP, Attention, Backbone, Block, Causal, ClassToken, Learned2d, Mean, Rotary, Sinusoidal2d, packing
from zoo.pictures.draw import draw
from zoo.tasks import CausalLM, Classify, Contrastive, MaskedLM, RandomMasking, Seq2Seq
from zoo.tokenizers import BPE, Batch, ConvFrames, ConvStem, Fit, Frames, Patches, Tokens

SIZES = [(12, 12), (4, 8), (8, 2), (2, 12), (6, 6)]
PATCHES = Patches(12, 2, 1, resize=Fit())


@pytest.fixture(params=["packed", "padded"])
def rows(request, monkeypatch) -> None:
    """Where packing pays, and where it does not."""
    monkeypatch.setattr(packing, "LEAST", 0.0 if request.param == "packed" else float("inf"))


def images() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(0, 256, (1, *size), dtype=torch.uint8, generator=generator) for size in SIZES]


def grid(position, mask=None) -> Backbone:
    mixer = partial(Attention, heads=2, **({"mask": mask} if mask else {}))
    return Backbone(16, 2, partial(Block, mixer=mixer, ffn=MLP), position=position)


def placed(prefix: int):
    return [partial(kind, height=6, width=6, prefix=prefix) for kind in (Learned2d, Sinusoidal2d)] + [Rotary]


def gradients(task, batch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The sum that a step adds up, and its gradients."""
    task.zero_grad()
    total, _ = task.step(batch, training=True)["loss"]
    total.backward()
    found = {name: weight.grad.clone() for name, weight in task.named_parameters() if weight.grad is not None}
    return total.detach(), found


def check_alone(task, whole: Batch, singles: list[Batch]) -> None:
    """Losses and gradients of a batch are the sums over its samples."""
    loss, found = gradients(task, whole)
    parts = [gradients(task, single) for single in singles]
    torch.testing.assert_close(loss, sum(part for part, _ in parts), rtol=1e-5, atol=1e-5)
    assert found
    for name, gradient in found.items():
        other = sum(part[name] for _, part in parts if name in part)
        torch.testing.assert_close(gradient, other, rtol=1e-4, atol=2e-5, msg=name)


def batches(tokenizer, items, target=None, texts=None) -> tuple[Batch, list[Batch]]:
    """All in one batch, and each in one of its own."""

    def make(chosen: list[int]) -> Batch:
        second = target([texts[i] for i in chosen]) if target else None
        return Batch(tokenizer([items[i] for i in chosen]), second, torch.tensor(chosen) % 3, torch.tensor(chosen))

    return make(list(range(len(items)))), [make([i]) for i in range(len(items))]


@pytest.mark.parametrize("number", [1, 2])
def test_only_the_patches_of_an_image_are_read(number, rows):
    """By another way: the real patches alone, told their places."""
    task = Classify(grid(placed(0)[number]), PATCHES, 3, pool=Mean).eval()
    tokens = task.tokens(images())
    for own, value, real in zip(task(tokens), tokens.value, tokens.padding):
        states = task.backbone(task.embed(value[real][None]), positions=real.nonzero().T)
        torch.testing.assert_close(own, task.head(states.mean(1))[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("stem", [None, partial(ConvStem, width=8)])
def test_a_batch_is_each_image_alone(number, stem, rows):
    patches = Patches(12, 2, 1, resize=Fit(), stem=stem)
    whole, singles = batches(patches, images())
    assert whole.input.padding.sum(1).tolist() == [36, 8, 4, 6, 9]
    torch.manual_seed(0)
    check_alone(Classify(grid(placed(1)[number]), patches, 3, pool=ClassToken), whole, singles)
    check_alone(MaskedLM(grid(placed(0)[number]), patches, RandomMasking(0.5)), whole, singles)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_next_patch_is_that_of_the_image(number, rows):
    whole, singles = batches(PATCHES, images())
    task = CausalLM(grid(placed(0)[number], Causal()), PATCHES)
    check_alone(task, whole, singles)
    score = task.step(whole, training=True)["loss"]
    assert int(score[1]) == sum(count - 1 for count in (36, 8, 4, 6, 9))
    changed = whole.input.value.clone()
    changed[~whole.input.padding] = 7.0  # what is outside is neither read nor predicted
    other = Batch(Tokens(changed, whole.input.padding))
    torch.testing.assert_close(task.step(other, training=True)["loss"], score)


def test_only_patches_of_the_image_are_hidden():
    whole, _ = batches(PATCHES, images())
    task = MaskedLM(grid(placed(0)[0]), PATCHES, RandomMasking(0.5))
    hidden = task.hide(whole)
    assert not (hidden & ~whole.input.padding).any() and hidden.sum(1).tolist() == [18, 4, 2, 3, 4]


def test_contrastive_towers():
    whole, _ = batches(PATCHES, images(), BPE(), ["one", "two words", "three", "a fourth text", "five"])
    task = Contrastive(grid(placed(0)[0]), PATCHES, backbone(), BPE(), width=8).eval()
    for i, vector in enumerate(task(whole.input)):
        torch.testing.assert_close(task(PATCHES([images()[i]]))[0], vector, rtol=1e-4, atol=1e-5)
    assert task.step(whole, training=True)["loss"][0].isfinite()


def test_images_of_one_size_can_be_written_only():
    with pytest.raises(ValueError, match="Seq2Seq writes images of one size"):
        Seq2Seq(both(), BPE(), PATCHES)
    task = CausalLM(grid(placed(0)[0], Causal()), PATCHES)
    with pytest.raises(ValueError, match="4 x 8 pixels cannot be gone on from"):
        task.generate(images()[1:2])
    with pytest.raises(ValueError, match="narrower than its grid"):
        task.generate(PATCHES(images()[1:2]))
    whole = PATCHES(images()[:1]).value[:, :30]
    assert task.generate(Tokens(whole)).outputs[0].shape == (1, 12, 12)


@pytest.fixture
def bars(tmp_path):
    """Upright and lying bars in images of different sizes, as files."""
    numbers = np.random.default_rng(0)
    for i in range(160):
        height, width = numbers.choice([8, 12, 16, 24], 2)
        stripes = numbers.integers(100, 255) * (np.arange(24) // 2 % 2)
        image = np.broadcast_to(stripes[:height, None] if i % 2 else stripes[None, :width], (height, width))
        path = tmp_path / ("train" if i < 128 else "test") / ("upright", "lying")[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.astype(np.uint8)).save(path)
    return str(tmp_path)


def test_a_training_on_files_of_different_sizes(bars, trainer, tmp_path):
    pl.seed_everything(0)
    patches = Patches(24, 4, 1, resize=Fit())
    rate = partial(torch.optim.AdamW, lr=3e-3)
    task = Classify(ViT(dim=32, depth=2, heads=2, grid=6), patches, 2, pool=ClassToken, optimizer=rate)
    data = Images(bars, batch_size=16, val=0.1, augment=[CropFlip(0)])
    fit = trainer(max_epochs=8)
    fit.fit(task, data)
    assert fit.test(task, data, verbose=False)[0]["test/accuracy"] > 0.95
    fit.save_checkpoint(tmp_path / "last.ckpt")
    again = Classify.load_from_checkpoint(tmp_path / "last.ckpt").eval()
    batch = data.sample("test", 6)
    assert again.tokenizer == patches and torch.equal(again(batch.input), task.eval()(batch.input))
    assert torch.cat(fit.predict(task, data)).shape == (32, 2)
    sheets = {sheet.name: sheet for sheet in [*task.show(batch), *task.show_attention(batch)]}
    assert [tuple(item.shape[1:]) for item in sheets["samples"].columns[0].items] == [
        patches.decode(patches.unpadded(value, real)).shape[1:]
        for value, real in zip(batch.input.value, batch.input.real)
    ]
    for name, sheet in sheets.items():
        draw(sheet).save(tmp_path / f"{name}.png")


@pytest.mark.parametrize("kind", [MaskedLM, CausalLM, Contrastive])
def test_pictures_show_the_image_alone(kind):
    whole, _ = batches(PATCHES, images(), BPE(), ["one", "two", "three", "four", "five"])
    if kind is Contrastive:
        task = Contrastive(grid(placed(0)[0]), PATCHES, backbone(), BPE(), width=8)
    else:
        task = kind(grid(placed(0)[0], Causal() if kind is CausalLM else None), PATCHES)
    for sheet in [*task.show(whole), *task.show_attention(whole)]:
        for column in [column for column in sheet.columns if column.kind == "image"]:
            shown = [size for size in SIZES if size[1] == 12] if sheet.name == "continued" else SIZES
            assert [tuple(item.shape[1:]) for item in column.items] == shown, (sheet.name, column.heading)
        draw(sheet)


AUDIO = Frames(SOUND, stack=2)
STEM = Frames(SOUND, stem=ConvFrames)


@pytest.mark.parametrize("kind", ["classify", "strided", "masked", "causal", "seq2seq", "written"])
def test_sounds_of_different_lengths(kind, rows):
    texts = ["one", "two words", "three", "a fourth text"]
    make, tokenizer, target = {
        "classify": (lambda: Classify(backbone(), AUDIO, 3, pool=ClassToken), AUDIO, None),
        "strided": (lambda: Classify(backbone(), STEM, 3), STEM, None),
        "masked": (lambda: MaskedLM(backbone(), AUDIO, RandomMasking(0.3)), AUDIO, None),
        "causal": (lambda: CausalLM(backbone(Causal()), AUDIO), AUDIO, None),
        "seq2seq": (lambda: Seq2Seq(both(), STEM, BPE()), STEM, BPE()),
        "written": (lambda: Seq2Seq(both(), BPE(), AUDIO), BPE(), AUDIO),
    }[kind]
    items, others = (texts, raw("audio")) if kind == "written" else (raw("audio"), texts)
    whole, singles = batches(tokenizer, items, target, others)
    assert (whole.target if kind == "written" else whole.input).padding is not None
    torch.manual_seed(0)
    check_alone(make(), whole, singles)
