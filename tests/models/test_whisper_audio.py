"""Whisper from a waveform to logits, against the reference's feature extractor and model."""

import json
import math

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

import zoo
from tests.models.parity import Row
from tests.models.rows.whisper import TABLE, heard, whisper
from zoo.tokenizers import ConvFrames, Frames, Ids, Tokens, Waveform, WhisperLogMel

TINY = {
    "d_model": 16,
    "num_mel_bins": 80,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_source_positions": 1500,
}


def waveform(seconds: float, rate: int = 16_000) -> torch.Tensor:
    """Two tones that fade, and noise below the ear's threshold of them."""
    time = torch.arange(int(seconds * rate)) / rate
    noise = torch.randn(len(time), generator=torch.Generator().manual_seed(0))
    tones = (2 * math.pi * 440 * time).sin() + (2 * math.pi * 1234 * time).sin() * (-time).exp()
    return 0.3 * tones + 0.01 * noise


@pytest.fixture(scope="module")
def theirs():
    return Row("whisper", lambda: whisper(**TINY), heard()).build()


@pytest.fixture(scope="module")
def folder(theirs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whisper")
    theirs.save_pretrained(folder)
    hf.WhisperFeatureExtractor().save_pretrained(folder)
    return folder


@pytest.mark.parametrize("seconds", [3.0, 31.0])
@torch.no_grad()
def test_from_a_waveform_to_logits(seconds, theirs, folder):
    ours = zoo.load(folder)
    samples = waveform(seconds)
    features = hf.WhisperFeatureExtractor.from_pretrained(folder)(
        samples.numpy(), sampling_rate=16_000, return_tensors="pt"
    ).input_features
    tokens = ours.tokenizer([Waveform(samples, 16_000)])
    assert tokens.value.shape == (1, 3000, 80) and tokens.padding is None
    assert torch.allclose(tokens.value.mT, features, atol=1e-3)
    written = torch.tensor([[5, 6, 7, 8, 9]])
    given = torch.tensor([[2, 5, 6, 7, 8]])
    expected = theirs(features, decoder_input_ids=given).logits
    logits = ours.head(ours(tokens, Tokens(written)))
    assert expected.abs().max() > 1e-2
    assert (logits - expected).abs().max() < 1e-3 * expected.abs().max()
    louder = ours.head(ours(Tokens(tokens.value + 0.1), Tokens(written)))
    assert (louder - expected).abs().max() > 1e-3 * expected.abs().max()


@torch.no_grad()
def test_other_sample_rates(folder):
    """The reference demands 16 kHz; ours resamples: a sound recorded at 48 kHz is heard as it was at 16."""
    tokenizer = zoo.load_tokenizer(folder)
    a, b = tokenizer([Waveform(waveform(3, 16_000), 16_000)]), tokenizer([Waveform(waveform(3, 48_000), 48_000)])
    assert a.value.shape == b.value.shape == (1, 3000, 80)
    tone = a.value[0, :300].mean(0).argmax()
    assert tone == b.value[0, :300].mean(0).argmax()
    assert (a.value[0, 5:295, tone] - b.value[0, 5:295, tone]).abs().max() < 0.05


def test_our_directory_has_an_equal_feature_extractor(folder, tmp_path):
    ours = zoo.load(folder)
    zoo.save(ours, tmp_path)
    a, b = (hf.WhisperFeatureExtractor.from_pretrained(place).to_dict() for place in (folder, tmp_path))
    assert a == b
    assert zoo.load_tokenizer(tmp_path) == ours.tokenizer == Frames(WhisperLogMel(80, 30.0), stem=ConvFrames)
    assert zoo.load_tokenizer(tmp_path, target=True) == Ids(97, 1, 2, 1, None)


def test_settings_inside_a_processor_s_file(folder, tmp_path):
    zoo.save(zoo.load(folder), tmp_path)
    settings = json.loads((tmp_path / "preprocessor_config.json").read_text())
    (tmp_path / "preprocessor_config.json").unlink()
    (tmp_path / "processor_config.json").write_text(json.dumps({"feature_extractor": settings | {"n_fft": 512}}))
    with pytest.raises(ValueError, match="n_fft=512 is not supported; this Whisper has n_fft=400"):
        zoo.load(tmp_path)


@pytest.mark.parametrize(("key", "value"), [("hop_length", 128), ("chunk_length", 10), ("feature_size", 128)])
def test_other_frames_are_refused(key, value, folder, tmp_path):
    zoo.save(zoo.load(folder), tmp_path)
    file = tmp_path / "preprocessor_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))
    with pytest.raises(ValueError, match=f"preprocessor_config.json: {key}={value} is not supported; this Whisper has"):
        zoo.load(tmp_path)


@pytest.mark.parametrize(
    ("tokenizer", "sentence"),
    [
        (Frames(WhisperLogMel(80), stem=ConvFrames), "seconds=None, give it 30"),
        (Frames(WhisperLogMel(80, 30.0)), r"reads Frames\(WhisperLogMel"),
    ],
)
def test_what_has_no_published_form(tokenizer, sentence, tmp_path):
    task = zoo.Seq2Seq(zoo.Whisper(16, 1, 2), tokenizer, Ids(97, 1, 2, 1))
    with pytest.raises(ValueError, match=sentence):
        zoo.save(task, tmp_path)


def test_a_loaded_backbone_fills_both_embeddings(folder):
    """The source's convolutions and the target's table each have names of their own in the file."""
    backbone = zoo.load_backbone(str(folder))
    task = zoo.Seq2Seq(backbone, zoo.load_tokenizer(str(folder)), zoo.load_tokenizer(str(folder), target=True))
    whole = zoo.load(folder)
    for part in ("embed", "target_embed", "head", "backbone"):
        for a, b in zip(getattr(task, part).parameters(), getattr(whole, part).parameters(), strict=True):
            assert torch.equal(a, b), part


def other_table(folder, change, path, dtype=torch.float32) -> None:
    """The same directory with another position table, all weights in a precision."""
    zoo.save(zoo.load(folder), path)
    state = load_file(path / "model.safetensors")
    state[TABLE[0]] = change(state[TABLE[0]])
    save_file({name: value.to(dtype) for name, value in state.items()}, path / "model.safetensors")
    (path / "SHA256SUMS").unlink()


def test_a_float32_table_that_is_off_is_refused(folder, tmp_path):
    other_table(folder, lambda table: table + 1e-3, tmp_path)
    sentence = (
        r"model.safetensors: (the tensor )?'model.encoder.embed_positions.weight' is not the constant that Whisper"
    )
    with pytest.raises(ValueError, match=sentence) as error:
        zoo.load(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda table: table, torch.float16),
        (lambda table: table, torch.bfloat16),
        (lambda table: table.half().float(), torch.float32),  # files that began as the authors' own
    ],
)
def test_a_table_in_half_precision_is_the_same(change, kind, folder, tmp_path):
    other_table(folder, change, tmp_path / "half", kind)
    assert isinstance(zoo.load(tmp_path / "half").backbone, zoo.Whisper)
