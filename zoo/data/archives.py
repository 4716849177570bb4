"""Archives that other libraries unpack on our behalf, kept from writing anywhere but where they should."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from zoo.data.bad import sentence


class Refused(tarfile.FilterError):
    """What tarfile does not pass over, as it does other errors."""


class Hostile(ValueError):
    """An archive that is damaged, or has members that belong in no data set."""


@contextmanager
def unpacked_safely(folder: Path) -> Iterator[None]:
    """Whatever is unpacked inside stays inside its folder: torchvision and torchaudio let a .tar write anywhere.

    Zip files are safe by themselves.  Raises ``Hostile``, which names ``folder``, where the archive lies.
    """
    if not hasattr(tarfile, "data_filter"):  # PEP 706, and with it the attribute that is set here
        raise ValueError("this Python cannot check archives: downloads need 3.10.12, 3.11.4 or a later one")
    before = tarfile.TarFile.extraction_filter
    tarfile.TarFile.extraction_filter = staticmethod(plain)
    try:
        yield
    except (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        raise Hostile(f"{folder}: an archive there is damaged or hostile ({sentence(error)}): remove it") from None
    finally:
        tarfile.TarFile.extraction_filter = before


def plain(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """Only files and folders, below where they are unpacked: a link would let the next member leave it, and Python's
    own filter lets some of them pass (CVE-2025-4517)."""
    name = PurePosixPath(member.name.replace("\\", "/"))
    if name.is_absolute() or ".." in name.parts or not (member.isfile() or member.isdir()):
        raise Refused(f"{member.name!r} is a link or a device, or lies outside")
    return tarfile.data_filter(member, folder)
