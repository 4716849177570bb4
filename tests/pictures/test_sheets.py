"""What the tasks show: hidden parts that differ, visible ones that are as they were, and verdicts that are true."""

from functools import partial

import pytest
import torch

from tests.tasks.conftest import TOKENIZERS, backbone, batch, both
from zoo.generation import Generation
from zoo.nn import Causal, ClassToken
from zoo.pictures import Confusion, Sheet, Weights
from zoo.tasks import CausalLM, Classify, Contrastive, MaskedLM, Multimodal, Seq2Seq
from zoo.tokenizers import Batch, ConvFrames, Frames, PatchFrames, Tokens

FEATURES = ("image", "audio")


def items(sheet: Sheet, heading: str) -> list:
    (column,) = [column for column in sheet.columns if column.heading == heading]
    return column.items


def text(item) -> str:
    return item if isinstance(item, str) else "".join(piece for piece, _ in item)


@pytest.mark.parametrize("modality", FEATURES)
def test_hidden_features_are_unknown_and_guessed_and_visible_ones_stay(modality):
    task, data = MaskedLM(backbone(), TOKENIZERS[modality]), batch(modality)
    (sheet,) = task.show(data)
    hidden = task.hide(data)
    for i in range(4):
        original, masked, guessed = (items(sheet, heading)[i] for heading in ("original", "masked", "guessed"))
        assert original.shape == masked.shape == guessed.shape
        unknown = masked.isnan()
        share = hidden[i].sum() / data.input.real[i].sum()
        assert unknown.float().mean() == pytest.approx(float(share), abs=1e-6)
        assert torch.equal(masked[~unknown], original[~unknown])
        assert torch.equal(guessed[~unknown], original[~unknown])
        assert not torch.allclose(guessed[unknown], original[unknown])


def test_hidden_words_are_marked_and_guesses_judged():
    task, data = MaskedLM(backbone(), TOKENIZERS["text"]), batch("text")
    (sheet,) = task.show(data)
    hidden, guess = task.hide(data), task.predict_step(data, 0)
    for i, (passage, guesses) in enumerate(zip(*(column.items for column in sheet.columns), strict=True)):
        real = data.input.real[i]
        assert text(passage).replace("∅", "") == TOKENIZERS["text"].decode(data.input.value[i][real])
        marked = sum(len(piece) for piece, mark in passage if mark == "hidden")  # every byte is a token
        assert marked == int(hidden[i].sum())
        right = int(((guess[i] == data.input.value[i]) & hidden[i]).sum())
        assert sum(len(piece) for piece, mark in guesses if mark == "right") == right
        assert [piece for piece, mark in passage if not mark] == [piece for piece, mark in guesses if not mark]


def test_the_same_tokens_are_hidden_each_time_also_without_keys():
    task, data = MaskedLM(backbone(), TOKENIZERS["image"]), Batch(batch("image").input)
    first, second = task.show(data), task.show(data)
    for a, b in zip(first[0].columns, second[0].columns, strict=True):
        assert all(torch.equal(x.nan_to_num(9.0), y.nan_to_num(9.0)) for x, y in zip(a.items, b.items, strict=True))


@pytest.mark.parametrize("modality", FEATURES)
def test_what_is_given_stays_and_the_rest_is_completed(modality):
    tokenizer = TOKENIZERS[modality]
    task, data = CausalLM(backbone(Causal()), tokenizer), batch(modality)
    (sheet,) = task.show(data)
    lengths = data.input.real.sum(1)
    given = int(lengths.min()) // 2
    start = data.input.value[:, :given]
    written = torch.cat((start, torch.stack(task.generate(Tokens(start), int(lengths.max()) - given).tokens)), 1)
    for i in range(4):
        original, seen, completed = (items(sheet, heading)[i] for heading in ("original", "given", "completed"))
        assert torch.equal(completed, tokenizer.decode(written[i, : lengths[i]]))
        known = ~seen.isnan()
        assert known.float().mean() == pytest.approx(given / int(lengths[i]))
        assert torch.equal(completed[known], original[known])


def test_a_text_is_continued_after_its_prompt():
    task, data = CausalLM(backbone(Causal()), TOKENIZERS["text"]), batch("text")
    (sheet,) = task.show(data)
    for original, continued in zip(items(sheet, "original"), items(sheet, "continued"), strict=True):
        assert original[0] == continued[0] and original[0][1] == ""
        assert [mark for _, mark in original[1:]] == ["hidden"] and [mark for _, mark in continued[1:]] == ["new"]


@pytest.mark.parametrize(
    "source, target", [("text", "text"), ("audio", "text"), ("image", "text"), ("text", "image"), ("text", "audio")]
)
def test_references_stand_beside_what_was_decoded(source, target):
    task = Seq2Seq(both(), TOKENIZERS[source], TOKENIZERS[target], generation=Generation(9))
    data = batch(source, target)
    (sheet,) = task.show(data)
    assert [column.heading for column in sheet.columns] == ["source", "reference", "decoded"]
    assert [column.kind for column in sheet.columns] == [source, target, target]
    written = task.predict_step(data, 0)
    for i in range(4):
        reference, decoded = items(sheet, "reference")[i], items(sheet, "decoded")[i]
        expected = TOKENIZERS[target].decode(data.target.value[i][data.target.real[i]])
        if target == "text":
            assert reference == expected and text(decoded).replace("∅", "") == written[i]
        else:
            assert torch.equal(reference, expected) and decoded.shape == expected.shape
            assert torch.equal(decoded[:9], written[i][: len(expected)][:9])


def test_words_that_are_not_in_the_reference_are_marked():
    tokenizer = TOKENIZERS["text"]
    found = tokenizer.against(tokenizer.encode("five tall men"), tokenizer.encode("five men, standing"))
    assert found == [("five", ""), (" tall", "other"), (" men", "")]
    assert tokenizer.against(tokenizer.encode("one two"), tokenizer.encode("one two")) == [("one two", "right")]


def test_predicted_classes_are_judged():
    task, data = Classify(backbone(), TOKENIZERS["image"], 3, labels=["ant", "bee", "cat"]), batch("image")
    (sheet,) = task.show(data)
    best, guess = task.eval().predict_step(data, 0).max(-1)
    names = ["ant", "bee", "cat"]
    assert items(sheet, "class") == ["ant", "bee", "cat", "bee"]
    for i, [(name, mark), (share, _)] in enumerate(items(sheet, "predicted")):
        assert name == names[guess[i]] and mark == ("right" if guess[i] == data.label[i] else "wrong")
        assert share == f" {best[i]:.0%}"


def test_similarities_are_cosines_of_inputs_and_targets():
    task = Contrastive(backbone(), TOKENIZERS["image"], backbone(), TOKENIZERS["text"], width=8)
    data = batch("image", "text")
    (sheet,) = task.show(data)
    assert [column.kind for column in sheet.columns] == ["image", "values", "text"]
    with torch.no_grad():
        expected = task.similarity(data.input, data.target) / task.scale.exp()
    assert torch.allclose(torch.stack(sheet.columns[1].items), expected, atol=1e-5)


def test_several_tasks_show_theirs_under_their_names():
    task = Multimodal(backbone(Causal()), {m: partial(CausalLM, tokenizer=t) for m, t in TOKENIZERS.items()})
    data = {m: batch(m) for m in ("text", "audio")}
    assert [sheet.name for sheet in task.show(data)] == ["text-continued", "audio-continued"]
    assert [sheet.name for sheet in task.show_attention(data)] == ["text-attention", "audio-attention"]


def test_showing_leaves_mode_and_random_numbers_alone(monkeypatch):
    task = MaskedLM(backbone(), TOKENIZERS["image"]).train()
    task.head.eval()  # a frozen part
    state = torch.get_rng_state()
    task.show(batch("image"))
    task.show_attention(batch("image"))
    assert torch.equal(torch.get_rng_state(), state)
    assert task.training and task.backbone.training and not task.head.training
    monkeypatch.setattr(task, "sheets", lambda data: [torch.rand(1)])  # a task of somebody's own
    task.show(batch("image"))
    assert torch.equal(torch.get_rng_state(), state)


# ---- confusion


def test_the_confusion_matrix_counts_all_validation_samples():
    task = Classify(backbone(), TOKENIZERS["image"], 3)
    data, expected = batch("image"), torch.zeros(3, 3, dtype=torch.long)
    task.step(data, training=False)  # by hand, before: not of this validation
    task.on_validation_epoch_start()
    for _ in range(2):
        task.validation_step(data, 0)
        for truth, guess in zip(data.label.tolist(), task.predict_step(data, 0).argmax(-1).tolist(), strict=True):
            expected[truth, guess] += 1
    assert task.measure([]) == {}
    (confusion, _) = task.show(data)
    assert isinstance(confusion, Confusion) and confusion.count == 8
    assert torch.equal(confusion.counts, expected)
    task.on_validation_epoch_start()
    task.validation_step(data, 0)
    task.measure([])
    assert task.confusion.sum() == 4  # of the last validation alone


def test_the_confusion_matrix_joins_what_processes_saw(monkeypatch):
    task = Classify(backbone(), TOKENIZERS["image"], 3)
    pairs = [torch.tensor([[0, 1], [0, 2]]), torch.tensor([[2, 2, 1], [2, 0, 2]])]  # (truth, guess) of two processes
    task.kept = pairs[:1]
    monkeypatch.setattr("zoo.tasks.classify.every", lambda items: items + pairs[1:])
    task.measure([])
    assert task.confusion.tolist() == [[1, 0, 0], [0, 0, 2], [1, 0, 1]]


def test_tasks_in_a_multimodal_one_forget_what_they_kept():
    task = Multimodal(backbone(), {"image": partial(Classify, tokenizer=TOKENIZERS["image"], classes=3)})
    task.validation_step({"image": batch("image")}, 0)
    task.measure([])
    assert task.tasks["image"].kept == [] and task.tasks["image"].confusion.sum() == 4


# ---- attention


def test_what_the_class_token_looked_at_lies_over_the_image():
    task, data = Classify(backbone(), TOKENIZERS["image"], 3, pool=ClassToken), batch("image")
    (sheet,) = task.show_attention(data)
    assert [column.heading for column in sheet.columns] == ["image", "mean"] + [f"head {i}" for i in (1, 2, 3, 4)]
    maps = task.attention(data)["backbone.blocks.1.mixer"]  # (B, H, 17, 17)
    assert torch.allclose(sheet.columns[3].weights[2].flatten(), maps[2, 1, 0, 1:])
    assert torch.allclose(sheet.columns[1].weights[0].flatten(), maps[0, :, 0, 1:].mean(0))


def test_attention_along_a_sound_has_the_length_of_the_sound():
    stem = partial(ConvFrames, stride=2)
    tokenizer = Frames(TOKENIZERS["audio"].spectrogram, stack=2, stem=stem)
    task, data = Classify(backbone(), tokenizer, 3), batch("audio")
    (sheet,) = task.show_attention(data)
    for weights, length in zip(sheet.columns[0].weights, data.input.real.sum(1).tolist(), strict=True):
        assert weights.shape == (5, -(-length // 2))  # the mean of four heads, and each; two tokens one
        assert torch.allclose(weights.sum(1), torch.ones(5), atol=1e-5)


def test_squares_of_a_spectrogram_are_not_shown_as_moments():
    tokenizer = Frames(TOKENIZERS["audio"].spectrogram, stem=partial(PatchFrames, patch=4, stride=2))
    data = Batch(Tokens(torch.randn(2, 40, 20)), label=torch.tensor([0, 1]))
    assert Classify(backbone(), tokenizer, 2).show_attention(data) == []


def test_attention_between_words_has_the_words_along_its_axes():
    task, data = MaskedLM(backbone(), TOKENIZERS["text"]), batch("text")
    (weights,) = task.show_attention(data)
    assert isinstance(weights, Weights)
    assert "".join(weights.keys).startswith("hello world") and weights.queries == weights.keys
    maps = task.attention(data)["backbone.blocks.1.mixer"][0]
    count = len(weights.keys)
    assert torch.allclose(weights.maps["head 2"], maps[1, :count, :count])


def test_a_decoder_looks_at_its_source():
    task, data = Seq2Seq(both(), TOKENIZERS["audio"], TOKENIZERS["text"]), batch("audio", "text")
    (weights,) = task.show_attention(data)
    assert weights.keys == [] and weights.queries[:5] == list("hello")
    maps = task.attention(data)["backbone.decoder.blocks.1.cross"][0]
    count = int(data.input.real[0].sum())
    assert count < data.input.value.size(1)  # the first sound is padded
    assert torch.allclose(weights.maps["head 1"], maps[0, : len(weights.queries), :count])
