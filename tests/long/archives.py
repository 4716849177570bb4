"""Archives that are damaged or hostile, where torchaudio unpacks them."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.long.cases import Case
from tests.long.media import recorded
from tests.long.texts import SOUND, written_to


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
    outside = folder / "outside"
    outside.mkdir()
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
        words = ["fit", "--config=asr_tones", "--data.root=YESNO", "--data.val=0.0", "--trainer.max_steps=1"]
        words += ["--trainer.enable_progress_bar=false", "--data.augment=null", "--data.batch_size=1"]
        words += ["--model.backbone.decoder.position.length=64"]
        yield Case("archive", name, words, str(place), name == "sound", environment={"ZOO_CACHE": str(place.parent)})


def tail(path: Path) -> bytes:
    archive("")(path)
    return path.read_bytes()[:-200]
