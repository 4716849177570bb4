"""Images and sound that are written: files of their own, and sheets that show them beside what was given."""

from __future__ import annotations

import argparse
import sys
import wave
from collections.abc import Sequence
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from zoo.atomic import replaced
from zoo.cli.errors import UserError
from zoo.cli.generate.batches import Row, Tally, batches, told, written
from zoo.pictures import Column, Sheet
from zoo.tasks.showing import column, columns, decoded
from zoo.tasks.writing import WritingTask
from zoo.tokenizers import Frames, Patches, Tokenizer, Waveform

FOLDER = "generated"


def media(task: WritingTask, rows: Sequence[Row], options: argparse.Namespace) -> str:
    """Each as a file, whose path is printed, and a sheet for each batch."""
    from zoo.pictures.draw import entitled  # here, so that texts do not wait for matplotlib

    if options.out == "-":
        raise UserError(f"--out=-: {task.pen.unit} are written to files; give a folder")
    folder = Path(options.out or FOLDER)
    folder.mkdir(exist_ok=True)
    tally, files = Tally(), Files(folder, rows, task.pen)
    for number, batch in enumerate(batches(rows, options.batch_size, watched=sys.stdout.isatty()), 1):
        complete = write if task.target_tokenizer is not None else go_on
        values, title, shown = complete(task, batch, options, tally)
        for row, value in zip(batch, values, strict=True):
            print(files.save(row, value))
        path = folder / f"sheet-{number:03}.png"
        save(entitled(Sheet(path.stem, title, shown), title), path)
        print(path, flush=True)
    return tally.paced("images" if isinstance(task.pen, Patches) else "sounds")


Made = tuple[list[Tensor], str, list[Column]]  # whole sequences, the title of their sheet and its columns


def write(task: WritingTask, batch: Sequence[Row], options: argparse.Namespace, tally: Tally) -> Made:
    """From a source."""
    with tally.timed():
        done = written(task, batch)
    tally.add(done)
    values = [value.float().cpu() for value in done.tokens]
    shown = [
        decoded("source", task.tokenizer, task.tokens([row.prompt.raw(task.tokenizer) for row in batch])),
        column("written", task.pen, [task.pen.decode(value) for value in values]),
    ]
    return values, "Written from the sources", shown


def go_on(task: WritingTask, batch: Sequence[Row], options: argparse.Namespace, tally: Tally) -> Made:
    """After the first tokens of what is given."""
    pen, truths, starts, rest = task.pen, [], [], []
    for row in batch:
        with told(row.prompt):
            truth = pen.prompt(row.prompt.raw(pen))
            count = share(pen, len(truth), options.given)
        truths.append(truth)
        starts.append(truth[:count])
        rest.append(options.length or len(truth) - count or task.generation.length)
    with tally.timed():
        done = task.generate(pen.collate(starts), None if pen.length else max(rest), first=batch[0].number)
    tally.add(done)
    new = [value.float().cpu()[:count] for value, count in zip(done.tokens, rest, strict=True)]
    values = [torch.cat(pair) for pair in zip(starts, new, strict=True)]
    given = [len(start) for start in starts]
    shown = columns(pen, [pen.continued(*three) for three in zip(truths, values, given, strict=True)])
    return values, f"Completed after {part(given, [len(truth) for truth in truths], options.given)}", shown


def part(given: list[int], counts: list[int], asked: int | None) -> str:
    """What was given of all of them."""
    if len({*zip(given, counts, strict=True)}) == 1:
        return f"{given[0]} of {counts[0]} tokens"
    return "the first half" if asked is None else f"the first {asked} tokens"


def share(pen: Tokenizer, count: int, given: int | None) -> int:
    """How many of ``count`` tokens are given: half of them if it is not said.  Raises ValueError for too many."""
    if given is None:
        return max(1, count // 2)
    most = count - 1 if pen.length else count
    if given > most:
        rest = ", and one at least is to be written" if pen.length else ""
        raise ValueError(f"--given={given} of its {count} tokens{rest}; give {most} at most")
    return given


class Files:
    """Names in a folder, none of them twice or that of a file that was given."""

    def __init__(self, folder: Path, rows: Sequence[Row], pen: Tokenizer):
        self.folder, self.pen = folder, pen
        self.taken = {row.prompt.value.resolve() for row in rows if isinstance(row.prompt.value, Path)}

    def free(self, stem: str, suffix: str) -> Path:
        path, number = self.folder / f"{stem}{suffix}", 1
        while path.resolve() in self.taken:
            number += 1
            path = self.folder / f"{stem}-{number}{suffix}"
        self.taken.add(path.resolve())
        return path

    def save(self, row: Row, value: Tensor) -> Path:
        """One sequence (T, F) as an image, or as sound with guessed phases."""
        given = row.prompt.value
        stem = f"{given.stem}-completed" if isinstance(given, Path) else f"written-{row.number + 1:03}"
        if isinstance(self.pen, Frames):
            path = self.free(stem, ".wav")
            write_wave(path, self.pen.listen(value))
        else:
            path = self.free(stem, ".png")
            save(picture(self.pen.decode(value)), path)
        return path


def picture(value: Tensor) -> Image.Image:
    """(C, H, W) floats in [0, 1] -> an image of as many pixels."""
    pixels = (value * 255).round().to(torch.uint8)
    return Image.fromarray((pixels[0] if len(pixels) == 1 else pixels.permute(1, 2, 0)).numpy())


def save(image: Image.Image, path: Path) -> None:
    with replaced(path, "wb") as file:
        image.save(file, "PNG")


def write_wave(path: Path, sound: Waveform) -> None:
    """16 bits a sample; what is too loud for them is made softer as a whole."""
    samples = sound.samples / max(1.0, float(sound.samples.abs().max()))
    with replaced(path, "wb") as whole, wave.open(whole, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sound.rate)
        file.writeframes((samples * 32767).round().to(torch.int16).numpy().astype("<i2").tobytes())
