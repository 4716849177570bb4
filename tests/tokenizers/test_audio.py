"""Frames: spectrograms, stacking, resampling, stems, and sound from a spectrogram."""

import pickle
from functools import partial

import pytest
import torch

from zoo.tokenizers import ConvFrames, Frames, KaldiLogMel, LogMel, MeanNormalised, Waveform, WhisperLogMel


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
