"""Sound with class labels: touch tones, class folders, manifests, a data set of torchaudio."""

from zoo.data.augment import Augment
from zoo.data.bad import OnBad
from zoo.data.field import Source
from zoo.data.files import class_folders, existing, manifests
from zoo.data.labelled import from_manifests, labelled
from zoo.data.module import DataModule
from zoo.data.recording import Recordings
from zoo.data.tones import KEYS, tones
from zoo.data.torchaudio_sets import torchaudio_set
from zoo.tokenizers import Tokenizer

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3", ".opus", ".aiff", ".aif")


class Audio(DataModule):
    """Sound, with labels where the data have them (``label``: the manifest's key, None to read none); sound with text
    is ``Pairs``.

    ``root``: None for touch tones, one key a clip, 12 classes; "tones" for clips of 3 to 7 keys without labels; a
    folder of class folders, below train/, val/ and test/ or not; a JSONL manifest with ``audio`` (a path beside it)
    and a label; or "SPEECHCOMMANDS" (35 words, one a clip), which torchaudio downloads into the cache.
    """

    def __init__(
        self,
        root: str | None = None,
        label: str | None = "label",
        val: float = 0.1,
        tokenizer: Tokenizer | None = None,
        batch_size: int = 64,
        workers: int = 0,
        seed: int | None = None,
        augment: list[Augment] | Augment | None = None,
        on_bad: OnBad = "raise",
        bucket: int = 0,
    ):
        super().__init__(tokenizer, None, batch_size, workers, seed, augment, val, on_bad, bucket)
        self.root, self.label = root, label

    def read(self) -> Source:
        if self.root is None:
            clips = tones(fewest=1, most=1)
            return labelled("keys", {s: (t, [t.keys(i) for i in range(len(t))]) for s, t in clips.items()}, KEYS)
        if self.root == "tones":
            return labelled("tones", {split: (clips, None) for split, clips in tones().items()})
        if self.root == "SPEECHCOMMANDS":
            files = torchaudio_set(self.root)
            return labelled(self.root, {split: (Recordings(paths), names) for split, (paths, names) in files.items()})
        path = existing(self.root, "a folder of class folders, a JSONL manifest, or SPEECHCOMMANDS")
        if found := manifests(path):
            return from_manifests(found, "audio", self.label, Recordings, self.bad)
        if path.is_file():
            raise ValueError(f"{path}: is neither a JSONL manifest nor a folder")
        splits = class_folders(path, SUFFIXES)
        return labelled(self.root, {split: (Recordings(files), names) for split, (files, names) in splits.items()})
