"""Images and sounds that are damaged, lie about their size, or are odd and sound."""

from __future__ import annotations

import io
import os
import random
import struct
import wave
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from tests.long.cases import Case
from tests.long.mutate import cut, flipped

IMAGES = """\
model:
  class_path: Classify
  init_args:
    tokenizer: {class_path: Patches, init_args: {size: 16, patch: 8, channels: 3}}
    backbone: {class_path: ViT, init_args: {dim: 16, depth: 1, heads: 2, grid: 2, prefix: 0}}
data: {class_path: Images, init_args: {batch_size: 4, val: 0.0}}
trainer: {max_steps: 1, enable_progress_bar: false, enable_model_summary: false}
"""
SOUNDS = """\
model:
  class_path: Classify
  init_args:
    tokenizer:
      class_path: Frames
      init_args: {spectrogram: {class_path: LogMel, init_args: {rate: 8000, mels: 16, window: 256, hop: 80}}}
    backbone: {class_path: LLaMA, init_args: {dim: 16, depth: 1, heads: 2, hidden: 16, mask: Full}}
data: {class_path: Audio, init_args: {batch_size: 4, val: 0.0}}
trainer: {max_steps: 1, enable_progress_bar: false, enable_model_summary: false}
"""
FORMATS = {"PNG": "png", "JPEG": "jpg", "WEBP": "webp", "BMP": "bmp", "GIF": "gif", "PPM": "ppm", "TIFF": "tif"}

Content = bytes | Callable[[Path], None]  # of a file, or what makes it


class Folder:
    """Class folders, each with one odd file beside a sound one, and the config that reads them."""

    def __init__(self, folder: Path, kind: str, config: str, sound: tuple[str, bytes]):
        self.folder, self.kind, self.sound, self.count = folder, kind, sound, 0
        self.config = folder / f"{kind}.yaml"
        self.config.write_text(config)

    def case(self, name: str, suffix: str, content: Content, control: bool = False, may_load: bool = False) -> Case:
        place = self.folder / f"{self.kind}-{self.count}"
        self.count += 1
        path = place / "a" / f"odd-{self.count}.{suffix}"
        for kind in "ab":
            (place / kind).mkdir(parents=True)
        (place / "b" / self.sound[0]).write_bytes(self.sound[1])
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            content(path)
        words = ["fit", f"--config={self.config}", f"--data.root={place}"]
        return Case(self.kind, name, words, str(path), control, may_load)


def image(kind: str, size: tuple[int, int] = (40, 30), mode: str = "RGB", **options: object) -> bytes:
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).convert(mode).save(file, kind, **options)
    return file.getvalue()


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, rows: bytes = b"", depth: int = 1, more: bytes = b"") -> bytes:
    """A grey PNG whose header says that size."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + more + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def many_scans(count: int) -> bytes:
    """A progressive JPEG, one of whose scans comes again and again."""
    file = io.BytesIO()
    Image.new("L", (4000, 4000), 77).save(file, "JPEG", progressive=True)
    data = file.getvalue()
    begin = data.rindex(b"\xff\xda")
    return data[:begin] + data[begin:-2] * count + data[-2:]


def tiff(entries: list[tuple[int, int, int, int]], next_one: int = 0) -> bytes:
    """(tag, type, count, value) in one directory."""
    packed = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return b"II*\x00\x08\x00\x00\x00" + struct.pack("<H", len(entries)) + packed + struct.pack("<I", next_one)


def odd_images() -> dict[str, tuple[str, Content]]:
    """What must be refused: name -> (suffix, content)."""
    big, row = 30_000, bytes(1 + 30_000 // 8)
    size = [(256, 4, 1, 2**31 - 1), (257, 4, 1, 2**31 - 1), (258, 3, 1, 8), (262, 3, 1, 1), (273, 4, 1, 8)]
    gif, bmp, jpeg, webp = (image(kind) for kind in ("GIF", "BMP", "JPEG", "WEBP"))
    frame = jpeg.index(b"\xff\xc0") + 5
    moving = b"RIFF\xff\xff\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0" + b"\xff\x3f\0" * 2 + webp[12:]
    return {
        "empty": ("png", b""), "text": ("jpg", b"no image at all " * 9), "a page": ("png", b"<html><svg onload='x'/>"),
        "PNG of 900 million pixels": ("png", png(big, big, row)),
        "PNG of 900 million pixels, all there": ("png", png(big, big, row * big)),
        "PNG a little too large": ("png", png(8192, 8193)), "PNG of no size": ("png", png(0, 0)),
        "PNG as high as can be": ("png", png(1, 2**31 - 1)), "PNG of 3 bits": ("png", png(9, 9, b"", 3)),
        "PNG with a text that unpacks to 200 MB":
            ("png", png(9, 9, bytes(27), 8, chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(2 * 10**8), 9)))),
        "GIF of 65,535 x 65,535": ("gif", gif[:6] + b"\xff\xff\xff\xff" + gif[10:]),
        "BMP of 40,000 x 40,000": ("bmp", bmp[:18] + struct.pack("<ii", 40_000, 40_000) + bmp[26:]),
        "BMP of a negative width": ("bmp", bmp[:18] + struct.pack("<ii", -9, 9) + bmp[26:]),
        "JPEG of 65,500 x 65,500": ("jpg", jpeg[:frame] + b"\xff\xdc\xff\xdc" + jpeg[frame + 4 :]),
        "JPEG of 3,000 scans": ("jpg", many_scans(3000)), "WEBP of 16,384 x 16,384": ("webp", moving),
        "PPM of 100,000 x 100,000": ("ppm", b"P6 100000 100000 255\n" + bytes(99)),
        "PPM of no number": ("ppm", b"P6 a b 255\n"),
        "PPM of a long number": ("ppm", b"P6 " + b"9" * 9999 + b" 1 255\n"),
        "TIFF of 2^31 x 2^31": ("tif", tiff(size)), "TIFF without a size": ("tif", tiff([(258, 3, 1, 8)])),
        "TIFF with tags of 2^32 values": ("tif", tiff([(tag, 4, 2**32 - 1, 8) for tag in range(256, 300)])),
        "TIFF that leads to itself": ("tif", tiff([(34665, 4, 1, 8)], 8)),
        "another format": ("png", image("ICO")), "EPS": ("png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"),
        "a folder": ("png", Path.mkdir), "a pipe": ("png", os.mkfifo),
        "a link to nothing": ("png", lambda path: path.symlink_to("nowhere")),
        "a link without an end": ("png", lambda path: path.symlink_to("/dev/zero")),
    }  # fmt: skip


def damaged_images(folder: Path, count: int) -> Iterator[Case]:
    """At least 60 images and their controls; ``count`` of them and more have some bits turned round."""
    images, dice = Folder(folder, "image", IMAGES, ("sound.png", image("PNG"))), random.Random(0)
    frames = [Image.new("RGB", (40, 30), shade) for shade in ("red", "green", "blue")]
    shades = Image.fromarray(np.arange(1200, dtype=np.uint16).reshape(30, 40) * 54)
    sound = {
        "16 bits": shades, "grey and alpha": frames[0].convert("LA"), "palette": frames[0].convert("P"),
        "one bit": frames[0].convert("1"), "alpha": frames[0].convert("RGBA"),
    }  # fmt: skip
    for name, picture in sound.items():
        yield images.case(name, "png", picture.save, control=True)
    yield images.case("CMYK", "jpg", image("JPEG", mode="CMYK"), control=True)
    yield images.case("floats", "tif", image("TIFF", mode="F"), control=True)
    for kind in ("GIF", "WEBP", "TIFF", "PNG"):
        moving = image(kind, save_all=True, append_images=frames)
        yield images.case(f"moving {kind}", FORMATS[kind], moving, control=True)
    yield images.case("a line", "png", image("PNG", (5000, 8)), control=True)
    for name, (suffix, content) in odd_images().items():
        yield images.case(name, suffix, content)
    for kind, suffix in FORMATS.items():
        data = image(kind)
        yield images.case(f"{kind}", suffix, data, control=True)
        for share in (0.02, 0.3, 0.9):
            yield images.case(f"{share:.0%} of a {kind}", suffix, data[: int(share * len(data))])
        for i in range(max(2, count // len(FORMATS))):
            whole = kind != "PNG"  # whose checksums tell
            content = flipped(data, dice, 8) if whole else flipped(data[:-12], dice) + data[-12:]
            yield images.case(f"{kind} with bits turned round, {i}", suffix, content, may_load=whole)


def recorded(rate: int = 8000, channels: int = 1, width: int = 2) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((channels, width, rate, 0, "NONE", ""))
        out.writeframes(np.random.default_rng(0).bytes(1600 * channels * width))
    return file.getvalue()


def encoded(kind: str, subtype: str | None = None, values: np.ndarray | None = None) -> bytes:
    import soundfile

    file = io.BytesIO()
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 8000) if values is None else values
    soundfile.write(file, noise, 8000, format=kind, subtype=subtype)
    return file.getvalue()


def with_header(**changes: int) -> bytes:
    """A .wav whose header says something else."""
    fields = {
        "riff": 3236,
        "fmt": 16,
        "format": 1,
        "channels": 1,
        "rate": 8000,
        "bytes": 16_000,
        "block": 2,
        "bits": 16,
    }
    fields = {**fields, "block": 2, "bits": 16, "data": 3200, **changes}
    head = [struct.pack("<I", fields["riff"]), b"WAVEfmt ", struct.pack("<I", fields["fmt"])]
    kinds = {"format": "H", "channels": "H", "rate": "I", "bytes": "I", "block": "H", "bits": "H"}
    head += [struct.pack(f"<{kind}", fields[name]) for name, kind in kinds.items()]
    return b"RIFF" + b"".join(head) + b"data" + struct.pack("<I", fields["data"]) + recorded()[44:]


def lying_flac(samples: int, rate: int = 8000) -> bytes:
    data = bytearray(encoded("FLAC"))
    packed = int.from_bytes(data[18:26], "big")
    packed = packed & ~((1 << 36) - 1) & ((1 << 44) - 1) | rate << 44 | samples
    data[18:26] = packed.to_bytes(8, "big")
    return bytes(data)


def odd_sounds() -> dict[str, tuple[str, Content]]:
    """What must be refused: name -> (suffix, content)."""
    values = np.random.default_rng(0).uniform(-0.5, 0.5, 8000)
    odd = {name: np.where(np.arange(8000) == 77, value, values) for name, value in
           {"NaN": np.nan, "infinity": np.inf, "1e30": 1e30}.items()}  # fmt: skip
    lies = {
        "no channels": {"channels": 0, "block": 0}, "65,535 channels": {"channels": 65_535}, "0 Hz": {"rate": 0},
        "4 GHz": {"rate": 2**32 - 1}, "16,007 Hz, which is prime": {"rate": 16_007}, "no bits": {"bits": 0},
        "4 GB of sound": {"data": 2**32 - 2}, "2 GB of sound": {"data": 2 * 10**9}, "a long format": {"fmt": 2**31},
        "an unknown format": {"format": 999}, "floats of 16 bits": {"format": 3},
        "floats, more than there are": {"format": 3, "bits": 32, "block": 4, "data": 2 * 10**9},
    }  # fmt: skip
    return {
        "empty": ("wav", b""), "text": ("wav", b"no sound at all " * 9), "text as FLAC": ("flac", b"no sound " * 9),
        "no samples": ("wav", recorded()[:40] + bytes(4)), "only RIFF": ("wav", b"RIFF"),
        **{f"header: {name}": ("wav", with_header(**changes)) for name, changes in lies.items()},
        **{f"floats with {name}": ("wav", encoded("WAV", "FLOAT", samples)) for name, samples in odd.items()},
        "doubles with 1e300": ("wav", encoded("WAV", "DOUBLE", np.where(np.arange(8000) == 7, 1e300, values))),
        "FLAC of 2^36 samples": ("flac", lying_flac(2**36 - 1)), "FLAC of 10^9 samples": ("flac", lying_flac(10**9)),
        "FLAC of 655,350 Hz": ("flac", lying_flac(2 * 10**9, 655_350)),
        "a folder": ("wav", Path.mkdir), "a pipe": ("wav", os.mkfifo),
        "a link to nothing": ("flac", lambda path: path.symlink_to("nowhere")),
        "a link without an end": ("wav", lambda path: path.symlink_to("/dev/zero")),
    }  # fmt: skip


def damaged_audio(folder: Path, count: int) -> Iterator[Case]:
    """At least 50 sounds and their controls; about ``count`` of them are cut off or have bits turned round."""
    sounds, dice = Folder(folder, "audio", SOUNDS, ("sound.wav", recorded())), random.Random(0)
    sound = {f"PCM of {8 * width} bits": recorded(channels=2, width=width) for width in (1, 2, 3, 4)}
    sound |= {name: encoded("WAV", name) for name in ("FLOAT", "DOUBLE", "ALAW", "ULAW", "IMA_ADPCM")}
    sound["44,100 Hz"] = recorded(44_100)
    for name, data in sound.items():
        yield sounds.case(name, "wav", data, control=True)
    for name, (suffix, content) in odd_sounds().items():
        yield sounds.case(name, suffix, content)
    whole = {"wav": recorded(), "flac": encoded("FLAC"), "ogg": encoded("OGG"), "aiff": encoded("AIFF")}
    for suffix, data in whole.items():
        yield sounds.case(suffix, suffix, data, control=True)
        yield sounds.case(f"the first bytes of {suffix}", suffix, data[:30])
        for i in range(max(3, count // 8)):
            yield sounds.case(f"cut {suffix} {i}", suffix, cut(data, dice), may_load=suffix in ("ogg", "aiff"))
            yield sounds.case(f"{suffix} with bits turned round, {i}", suffix, flipped(data, dice, 8), may_load=True)
