"""Frames: spectrograms, stacking, resampling, stems, and sound from a spectrogram."""

import pickle
from functools import partial

import pytest
import torch
from torchaudio.transforms import MelSpectrogram

from zoo.tokenizers import (
    ConvFrames,
    Frames,
    KaldiLogMel,
    LogMel,
    MeanNormalised,
    PatchFrames,
    Waveform,
    WhisperLogMel,
)


def tone(hertz: float, seconds: float = 1.0, rate: int = 16_000) -> Waveform:
    time = torch.arange(int(seconds * rate)) / rate
    return Waveform(0.3 * torch.sin(2 * torch.pi * hertz * time), rate)


@pytest.mark.parametrize(
    ("spectrogram", "frames", "mels"), [(LogMel(), 101, 80), (WhisperLogMel(), 100, 80), (KaldiLogMel(), 98, 128)]
)
def test_a_second_of_sound(spectrogram, frames, mels):
    value = Frames(spectrogram).encode(tone(440))
    assert value.shape == (frames, mels)
    low, high = (Frames(spectrogram).encode(tone(hertz)).mean(0).argmax() for hertz in (300, 3000))
    assert low < high


@pytest.mark.parametrize(
    ("rate", "mels", "window", "hop", "scale"), [(16_000, 80, 400, 160, "htk"), (8000, 20, 251, 77, "slaney")]
)
def test_mel_power_is_torchaudios(rate, mels, window, hop, scale):
    samples = torch.randn(9_001, generator=torch.Generator().manual_seed(0)) * 0.3
    power = MelSpectrogram(rate, window, hop_length=hop, n_mels=mels, mel_scale=scale)(samples).mT
    frames = LogMel(rate, mels, window, hop, scale=scale)(samples)
    torch.testing.assert_close(frames, ((power + 1e-6).log() + 6) / 4, rtol=1e-5, atol=1e-5)


def test_a_stem_sees_nothing_behind_the_last_frame():
    """In a batch of longer sounds each has the tokens that it has alone."""
    tokenizer, sounds = Frames(LogMel(mels=8), stem=ConvFrames), [torch.randn(count, 8) for count in (12, 7, 4)]
    embed, tokens = tokenizer.embed(16), tokenizer.collate(sounds)
    whole, real = embed(tokens.value, padding=tokens.padding), embed.padding(tokens.padding)
    for sound, states, own in zip(sounds, whole, real):
        torch.testing.assert_close(states[own], embed(sound[None])[0])


def test_stacking_keeps_all_frames():
    plain, stacked = Frames(LogMel()), Frames(LogMel(), stack=4)
    frames, tokens = plain.encode(tone(440)), stacked.encode(tone(440))
    assert tokens.shape == (26, 320)
    torch.testing.assert_close(stacked.decode(tokens)[:101], frames)


def test_any_rate_is_resampled():
    spectrogram = LogMel(rate=8000, mels=40, window=256, hop=80)
    slow, fast = (Frames(spectrogram).encode(tone(1000, rate=rate)) for rate in (8000, 44_100))
    assert slow.shape == fast.shape
    assert slow.mean(0).argmax() == fast.mean(0).argmax()


def test_very_short_sounds_are_filled_up():
    for spectrogram in (LogMel(), WhisperLogMel(), KaldiLogMel()):
        assert len(Frames(spectrogram).encode(Waveform(torch.randn(3), 16_000))) >= 1


def test_griffin_lim_brings_the_pitch_back():
    tokenizer = Frames(LogMel(), stack=2)
    heard = tokenizer.listen(tokenizer.encode(tone(1000)))
    spectrum = torch.fft.rfft(heard.samples).abs()
    peak = spectrum.argmax() * heard.rate / len(heard.samples)
    assert abs(peak - 1000) < 60


def test_a_convolutional_stem_halves_time_and_padding():
    tokenizer = Frames(LogMel(), stem=partial(ConvFrames, stride=2))
    embed = tokenizer.embed(16)
    tokens = tokenizer.collate([tokenizer.encode(tone(440, s)) for s in (0.5, 1.0)])
    x, padding = embed(tokens.value), embed.padding(tokens.padding)
    assert x.shape == (2, 51, 16) and padding.shape == (2, 51)
    assert padding.sum(1).tolist() == [26, 51]
    with pytest.raises(ValueError, match=r"ConvFrames merges 2 frames.*Frames\(stack=2\)"):
        embed.add_mask()
        embed(tokens.value, tokens.padding)


def test_it_is_a_value():
    assert Frames(LogMel(mels=40)) == Frames(LogMel(mels=40)) == pickle.loads(pickle.dumps(Frames(LogMel(mels=40))))
    assert Frames(LogMel(mels=40)) != Frames(LogMel(mels=64))


def test_errors_are_sentences():
    with pytest.raises(ValueError, match="a sound without samples"):
        Frames().encode(Waveform(torch.zeros(0), 16_000))
    with pytest.raises(ValueError, match="sample rate of 0 Hz"):
        Frames().encode(Waveform(torch.zeros(100), 0))
    with pytest.raises(ValueError, match="stack=0"):
        Frames(stack=0)


def test_mean_normalisation_takes_level_and_colour_away():
    spectrogram = MeanNormalised(LogMel(floor=1e-12))
    clip = torch.randn(16_000, generator=torch.Generator().manual_seed(0)) * torch.linspace(0.1, 1, 16_000)
    frames = spectrogram(clip)
    torch.testing.assert_close(frames.mean(0), torch.zeros(80), rtol=0, atol=1e-4)
    assert float(frames.std()) == pytest.approx(1, abs=1e-3)
    torch.testing.assert_close(spectrogram(clip * 0.3), frames, rtol=0, atol=1e-2)
    assert not torch.allclose(LogMel()(clip * 0.3), LogMel()(clip), atol=0.1)


def test_patches_of_a_spectrogram_are_a_grid_of_bands_and_time():
    tokenizer = Frames(KaldiLogMel(mels=20, frames=30), stem=partial(PatchFrames, patch=4, stride=[2, 3]))
    embed, value = tokenizer.embed(8), tokenizer([tone(440), tone(300, 0.1)]).value
    x = embed(value)
    assert value.shape == (2, 30, 20) and x.shape == (2, 9 * 9, 8)
    weight, bias = embed.projection.weight, embed.projection.bias
    patch = value[1, 3 * 5 : 3 * 5 + 4, 2 * 7 : 2 * 7 + 4].mT  # 7 down, 5 across
    torch.testing.assert_close(x[1, 7 * 9 + 5], (weight * patch).sum((1, 2, 3)) + bias)
    assert embed.padding(torch.ones(2, 30, dtype=torch.bool)) is None
    with pytest.raises(ValueError, match="PatchFrames merges"):
        embed(value, torch.ones(2, 30, dtype=torch.bool))


def test_a_fixed_number_of_frames_is_filled_before_it_is_normalised():
    short, free = KaldiLogMel(frames=70), KaldiLogMel()
    sound = tone(440, 0.5).samples
    frames = free(sound)
    assert len(frames) < 70 and torch.equal(short(sound)[: len(frames)], frames)
    torch.testing.assert_close(short(sound)[len(frames) :], torch.full((70 - len(frames), 128), 4.2677393 / 9.1379948))
    assert torch.equal(KaldiLogMel(frames=20)(sound), frames[:20])
