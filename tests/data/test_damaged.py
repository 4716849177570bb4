"""Damaged and hostile files: each is refused in one line that names it, and what is merely odd is read."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torchaudio.datasets
from PIL import Image

from tests.long.archives import damaged_archives
from tests.long.media import damaged_audio, damaged_images, many_scans, png
from tests.long.texts import damaged_texts
from zoo.data import Audio, Images, Text
from zoo.data.files import chunks
from zoo.data.picture import Pictures, read_image
from zoo.data.torchaudio_sets import torchaudio_set
from zoo.tokenizers import BPE, Frames, LogMel, Patches, Resize
from zoo.tokenizers.image import PIXELS, converted

IMAGE, SOUND, WORDS = Patches(16, 8, 3), Frames(LogMel(8000, 16, 256, 80)), BPE()


def images(root, options):
    return Images(root, tokenizer=IMAGE, val=0.0, **options)


def sounds(root, options):
    return Audio(root, tokenizer=SOUND, val=0.0, **options)


def texts(root, options):
    if root.endswith(".npz"):
        return images(root, {})
    return Text(root, 16, tokenizer=WORDS, val=0.0, **options)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "read", "least"), [(damaged_images, images, 60), (damaged_audio, sounds, 50), (damaged_texts, texts, 50)]
)
def test_damaged_files(tmp_path, make, read, least):
    count = 0
    for case in make(tmp_path, 1):
        given = dict(word[2:].split("=", 1) for word in case.words[2:])
        options = {"label": given["data.label"]} if "data.label" in given else {}
        problem = ""
        try:
            list(read(given["data.root"], options).train_dataloader())
        except (ValueError, FileNotFoundError) as error:
            problem = str(error)
        if case.control:
            assert not problem, case.name
            continue
        count += 1
        assert problem or case.may_load, case.name
        if problem:
            assert Path(case.file).name in problem and "\n" not in problem and len(problem) < 500, (case.name, problem)
    assert count >= least


def test_a_large_image_is_refused_by_its_header(tmp_path):
    path = tmp_path / "large.png"
    path.write_bytes(png(8192, 8193))
    with pytest.raises(ValueError, match=f"large.png: .*8,192 x 8,193 pixels, and {PIXELS:,} are the most"):
        read_image(path)
    path.write_bytes(many_scans(101))
    with pytest.raises(ValueError, match="large.png: .*a JPEG of 10. scans"):
        read_image(path)
    Image.new("L", (100_000, 8)).save(path)
    thin = Patches(16, 8, 3, resize=Resize(16))
    assert thin.resize is not None
    with pytest.raises(ValueError, match="line.png: 1000000 x 8 pixels would become 32,000,000 x 256"):
        Image.new("L", (1_000_000, 8)).save(tmp_path / "line.png")
        Pictures([tmp_path / "line.png"], Patches(256, 8, 3, resize=Resize(256))).raw([0])
    assert Pictures([path], thin).raw([0]).shape == (1, 3, 16, 16)


@pytest.mark.parametrize("mode", ["I;16", "I"])
def test_sixteen_bits_become_eight(mode):
    values = np.array([[0, 257, 32_896, 65_535]], np.uint16)
    image = Image.fromarray(values) if mode == "I;16" else Image.fromarray(values.astype(np.int32))
    assert image.mode == mode
    assert np.array(converted(image, 1)).tolist() == [[0, 1, 128, 255]]


def test_a_compressed_file_that_grows_without_end_stops_early(tmp_path):
    case = next(case for case in damaged_texts(tmp_path, 0) if "gzip of 1 GB" in case.name)
    tracemalloc.start()
    with pytest.raises(ValueError, match="unpacks to more than 100 times its size"):
        list(chunks(Path(case.file)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**8


def test_a_damaged_wav_takes_no_memory_for_what_it_promises(tmp_path):
    wanted = ("header: 2 GB of sound", "FLAC of 10^9 samples", "header: floats, more than there are")
    cases = [case for case in damaged_audio(tmp_path, 0) if case.name in wanted]
    assert len(cases) == len(wanted)
    for case in cases:
        tracemalloc.start()
        with pytest.raises(ValueError, match=Path(case.file).name):
            list(sounds(case.words[2].split("=")[1], {}).train_dataloader())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10**7, case.name


def test_archives_write_nothing_outside(tmp_path, monkeypatch):
    count = 0
    for case in damaged_archives(tmp_path, 0):
        monkeypatch.setenv("ZOO_CACHE", case.environment["ZOO_CACHE"])
        if case.control:
            assert torchaudio_set("YESNO")["train"][1] == ["no yes no yes yes no yes no"]
            continue
        count += 1
        with pytest.raises(ValueError, match="YESNO") as caught:
            torchaudio_set("YESNO")
        assert "\n" not in str(caught.value) and not list((tmp_path / "outside").iterdir()), case.name
    assert count >= 8


def test_without_the_filter_they_would(tmp_path):
    """The cases are what they claim to be."""
    written = 0
    for case in damaged_archives(tmp_path, 0):
        if case.name in ("above", "inside out"):
            torchaudio.datasets.YESNO(case.file, download=True)
            written += 1
    assert len(list((tmp_path / "outside").iterdir())) == written == 2
