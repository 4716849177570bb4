"""Archives that are damaged or hostile, where torchaudio unpacks them."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.long.cases import Case
from tests.long.media import recorded
from tests.long.texts import SOUND, written_to

YES_NO = """\
model:
  class_path: Seq2Seq
  init_args:
    tokenizer: {class_path: Frames, init_args: {spectrogram: {class_path: LogMel, init_args: {rate: 8000, mels: 16}}}}
    target_tokenizer: BPE
    backbone: {class_path: Whisper, init_args: {dim: 16, depth: 1, heads: 2, hidden: 16}}
data: {class_path: Pairs, init_args: {root: YESNO, source: audio, target: text, batch_size: 1, val: 0.0}}
trainer: {max_steps: 1, enable_progress_bar: false, enable_model_summary: false}
"""


def archive(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", after: str = "") -> Callable[[Path], None]:
    """What writes a .tar.gz with a sound of YESNO, and one more member; and a file ``after`` it, through a link."""

    def write(path: Path) -> None:
        with tarfile.open(path, "w:gz") as out:
            for member, data in (
                ("waves_yesno/0_1_0_1_1_0_1_0.wav", recorded()),
                (name, b"hostile"),
                (after, b"hostile"),
            ):
                if member:
                    entry = tarfile.TarInfo(member)
                    special = member == name and kind != tarfile.REGTYPE
                    entry.type, entry.linkname = (kind, target) if special else (tarfile.REGTYPE, "")
                    entry.size = 0 if special else len(data)
                    out.addfile(entry, None if special else io.BytesIO(data))

    return write


def damaged_archives(folder: Path, count: int) -> Iterator[Case]:
    """Archives in the cache, which torchaudio unpacks; nothing may be written outside (``folder / "outside"``)."""
    outside, config = folder / "outside", folder / "archive.yaml"
    outside.mkdir()
    config.write_text(YES_NO)
    odd = {
        "above": archive("../../outside/a"),
        "absolute": archive(f"{outside}/b"),
        "inside out": archive("waves_yesno/../../../outside/c"),
        "a link": archive("waves_yesno/link", tarfile.SYMTYPE, str(outside), "waves_yesno/link/d"),
        "a link above": archive("link", tarfile.SYMTYPE, "../../outside", "link/e"),
        "a hard link": archive("link", tarfile.LNKTYPE, "/etc/passwd"),
        "a device": archive("waves_yesno/null", tarfile.CHRTYPE),
        "a pipe": archive("waves_yesno/pipe", tarfile.FIFOTYPE),
        "cut off": lambda path: path.write_bytes(tail(path)),
        "empty": b"",
        "no archive": SOUND,
    }
    for number, (name, content) in enumerate({"sound": archive(""), **odd}.items()):
        place = folder / f"cache-{number}" / "YESNO"
        place.mkdir(parents=True)
        written_to(place / "waves_yesno.tar.gz", content)
        words = ["fit", f"--config={config}"]
        yield Case("archive", name, words, str(place), name == "sound", environment={"ZOO_CACHE": str(place.parent)})


def tail(path: Path) -> bytes:
    archive("")(path)
    return path.read_bytes()[:-200]
