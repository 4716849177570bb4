"""The seal of a checkpoint: the sha256 of its bytes, kept in the comment that a zip file may end with."""

from __future__ import annotations

import hashlib
import struct
from typing import IO, Any

MARK = b"zoo:sha256:"
SEAL = len(MARK) + hashlib.sha256().digest_size * 2  # bytes of the comment
LENGTH = struct.Struct("<H")  # of the comment: the last thing that stands before it
PIECE = 1 << 20


class Sealing:
    """A file for ``torch.save`` to write to, one byte after the other; ``seal`` then ends the zip that it wrote.

    An error of the file is kept for ``seal`` to raise: torch's writer, which is C++, would make it one of its own.
    """

    def __init__(self, file: IO[bytes]):
        self.file, self.digest, self.count = file, hashlib.sha256(), 0
        self.error: BaseException | None = None

    def write(self, data: Any) -> int:
        if self.error is None:
            try:
                self.file.write(data)
                self.digest.update(data)
            except BaseException as error:
                self.error = error
        size = len(data)
        self.count += size
        return size

    def flush(self) -> None:
        """Nothing: whoever opened the file flushes it."""

    def seal(self) -> None:
        """Put the digest of all that was written into the comment.  Raises the first error of the file."""
        if self.error is not None:
            raise self.error
        self.file.seek(self.count - LENGTH.size)
        self.file.write(LENGTH.pack(SEAL) + MARK + self.digest.hexdigest().encode())


def sealed(file: IO[bytes], size: int) -> bool | None:
    """Does a file of ``size`` bytes have the digest that its seal says?  None where there is no seal."""
    if size < SEAL + LENGTH.size:
        return None
    body = size - SEAL - LENGTH.size
    file.seek(body)
    length, seal = file.read(LENGTH.size), file.read(SEAL)
    if length != LENGTH.pack(SEAL) or not seal.startswith(MARK):
        return None
    digest = hashlib.sha256()
    file.seek(0)
    while body and (piece := file.read(min(PIECE, body))):
        digest.update(piece)
        body -= len(piece)
    digest.update(LENGTH.pack(0))  # what torch wrote there
    return seal == MARK + digest.hexdigest().encode()
