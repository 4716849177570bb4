"""Every tokenizer with every objective: the loss falls, evaluation and prediction run, checkpoints come back whole."""

from functools import partial

import lightning.pytorch as pl
import pytest
import torch

from tests.tasks.conftest import TOKENIZERS, Repeat, backbone, batch, both
from zoo.generation import Generation
from zoo.nn import Causal, ClassToken, Window
from zoo.tasks import BLEU, WER, CausalLM, Classify, MaskedLM, Multimodal, Seq2Seq
from zoo.tokenizers import ConvFrames, Frames

FAST = partial(torch.optim.AdamW, lr=5e-3)
PAIRS = [("text", "text"), ("audio", "text"), ("image", "text"), ("text", "image"), ("text", "audio")]


def seq2seq(source: str, target: str) -> Seq2Seq:
    metrics = [BLEU(), WER()] if target == "text" else None
    return Seq2Seq(
        both(),
        TOKENIZERS[source],
        TOKENIZERS[target],
        metrics=metrics,
        generation=Generation(12),
        label_smoothing=0.1,
        optimizer=FAST,
    )


CASES = {
    **{f"masked {m}": (lambda m=m: MaskedLM(backbone(), TOKENIZERS[m], optimizer=FAST), batch(m)) for m in TOKENIZERS},
    **{
        f"causal {m}": (lambda m=m: CausalLM(backbone(Causal()), TOKENIZERS[m], optimizer=FAST), batch(m))
        for m in TOKENIZERS
    },
    **{
        f"classify {m}": (lambda m=m: Classify(backbone(), TOKENIZERS[m], 3, pool=ClassToken, optimizer=FAST), batch(m))
        for m in TOKENIZERS
    },
    **{f"{a} to {b}": (lambda a=a, b=b: seq2seq(a, b), batch(a, b)) for a, b in PAIRS},
    "multimodal": (
        lambda: Multimodal(
            backbone(Causal()), {m: partial(CausalLM, tokenizer=t) for m, t in TOKENIZERS.items()}, optimizer=FAST
        ),
        {m: batch(m) for m in TOKENIZERS},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_it_learns_and_its_checkpoint_comes_back(case, trainer, tmp_path):
    torch.manual_seed(0)
    make, data = CASES[case]
    task = make()
    with torch.no_grad():
        before = task.step(data, training=False)["loss"]
    fitting = trainer()
    fitting.fit(task, Repeat(data))
    (result,) = fitting.test(task, Repeat(data, 2), verbose=False)
    assert result["test/loss"] < 0.9 * float(before[0] / before[1])
    assert len(fitting.predict(task, Repeat(data, 1))) == 1

    fitting.save_checkpoint(tmp_path / "run.ckpt")
    again = type(task).load_from_checkpoint(tmp_path / "run.ckpt", weights_only=True)
    with torch.no_grad():
        assert torch.equal(again.eval().step(data, False)["loss"][0], task.eval().step(data, False)["loss"][0])
    assert type(pl.LightningModule.load_from_checkpoint(tmp_path / "run.ckpt", weights_only=True)) is type(task)


def test_padding_does_not_change_a_score():
    for make, data in (CASES["masked text"], CASES["causal text"], CASES["masked audio"], CASES["audio to text"]):
        torch.manual_seed(0)
        task = make().eval()
        longer = Repeat(data).batches[0].to("cpu")
        for tokens in (longer.input, longer.target):
            if tokens is not None:
                tokens.padding = torch.nn.functional.pad(tokens.real, (0, 7))
                pad = (0, 7) if tokens.value.dim() == 2 else (0, 0, 0, 7)
                tokens.value = torch.nn.functional.pad(tokens.value, pad, value=1)
        if isinstance(task, MaskedLM):  # the same tokens hidden
            hidden = task.hide(data)
            task.hide = lambda b, h=hidden: torch.nn.functional.pad(h, (0, b.input.real.size(1) - h.size(1)))
        with torch.no_grad():
            short, long = task.step(data, False)["loss"], task.step(longer, False)["loss"]
        assert short[1] == long[1]
        torch.testing.assert_close(short[0], long[0], rtol=1e-5, atol=1e-4)


def test_generation_with_a_cache_is_the_full_forward():
    torch.manual_seed(0)
    task, data = seq2seq("audio", "text").eval(), batch("audio", "text")
    written = task.generate(data.input, 6).tokens
    with torch.no_grad():
        for row, ids in enumerate(written):
            source = type(data.input)(data.input.value[row : row + 1], data.input.real[row : row + 1])
            states = task(source, type(data.input)(ids[None]))
            assert torch.equal(task.head(states).argmax(-1)[0], ids)


def test_causal_generation_repeats_what_was_learned(trainer):
    torch.manual_seed(0)
    task = CausalLM(backbone(Causal()), TOKENIZERS["text"], optimizer=partial(torch.optim.AdamW, lr=1e-2))
    trainer(max_epochs=30).fit(task, Repeat(batch("text")))
    assert task.generate(["hello wor"], 8).outputs[0].startswith("ld hello")


def test_unequal_tokenizers_have_embeddings_of_their_own():
    task = seq2seq("text", "text")
    assert task.embed is task.target_embed and task.head.out.weight is task.embed.table.weight
    assert seq2seq("image", "text").embed is not seq2seq("image", "text").target_embed


def test_a_backbone_that_sees_the_future_is_refused():
    with pytest.raises(
        ValueError, match=r"CausalLM predicts the next token, but layer blocks\.0\.mixer\.fn sees the future"
    ):
        CausalLM(backbone(), TOKENIZERS["text"])
    with pytest.raises(ValueError, match="Seq2Seq predicts"):
        Seq2Seq(type(both())(backbone(), backbone(Window(4))), TOKENIZERS["text"])


def test_merged_frames_cannot_be_predicted_one_by_one():
    with pytest.raises(ValueError, match=r"use Frames\(stack=2\)"):
        CausalLM(backbone(Causal()), Frames(stem=ConvFrames))


def test_labels_are_checked():
    task, data = CASES["classify image"][0](), batch("image")
    data.label[0] = 7
    with pytest.raises(ValueError, match="label 7 is out of range for 3 classes"):
        task.step(data, True)
    data.label = None
    with pytest.raises(ValueError, match="Classify needs labels"):
        task.step(data, True)
    with pytest.raises(ValueError, match="classes=1"):
        Classify(backbone(), TOKENIZERS["image"], 1)


def test_label_probabilities_are_labels_too():
    task, data = CASES["classify image"][0]().eval(), batch("image")
    hard = task.step(data, False)
    data.label = torch.nn.functional.one_hot(data.label, 3).float()
    soft = task.step(data, False)
    torch.testing.assert_close(hard["loss"][0], soft["loss"][0])
    assert hard["accuracy"][0] == soft["accuracy"][0]
