"""Text that is encoded while it is trained on: corpora too large to be held, or read from the network."""

from __future__ import annotations

import itertools

from zoo.data.corpus import Corpus, found, hugging_face
from zoo.data.field import Documents, Samples, Source
from zoo.data.module import DataModule
from zoo.data.streamed import Streamed, Training
from zoo.tokenizers import Tokenizer


class Stream(DataModule):
    """Text in blocks of ``length`` ids, read and encoded as training goes on; ``python -m zoo tokenize`` is faster
    where there is room for its shards.

    ``root``: files or a folder of .txt, .jsonl (both also .gz) or .parquet, named train*, val* and test* where there
    are splits, with the text of records at ``key``; or "hf:NAME" or "hf:NAME:CONFIG" for a data set of the ``datasets``
    package.  Validation and test texts are held in memory; without any for validation, the first ``held`` documents of
    training are validation instead.

    Every process reads with ``workers`` processes or by itself.  Each of the R readers reads all of the source, which
    takes little beside encoding where it lies on a disk, and gives its share: reader r every R-th document from
    document r on, each once a pass, in an order that is drawn anew in each pass within windows of ``window`` documents;
    its last ids begin the first block of the next pass.  A reader that is through begins its next pass, so none waits
    for another: an epoch is ``steps`` batches on each process, and the next goes on behind them.  So all processes end
    an epoch together, and no reader leaves out an id or gives one twice in a pass.  Training that is gone on with reads
    on from the block where it was; it must have as many readers.
    """

    def __init__(
        self,
        root: str,
        length: int = 256,
        key: str = "text",
        steps: int = 1000,
        window: int = 10_000,
        held: int = 100,
        tokenizer: Tokenizer | None = None,
        batch_size: int = 64,
        workers: int = 0,
        seed: int | None = None,
    ):
        super().__init__(tokenizer, None, batch_size, workers, seed, None, 0.0)
        if min(length, steps, window) < 1 or held < 0:
            raise ValueError(
                f"length={length}, steps={steps}, window={window}, held={held}: need at least 1, and held 0"
            )
        self.root, self.length, self.key = root, length, key
        self.steps, self.window, self.held = steps, window, held

    def read(self) -> Source:
        if self.root.startswith("hf:"):
            corpus = Corpus({}, hugging_face(self.root[3:], streaming=True), self.key)
        else:
            corpus = Corpus(found([self.root]), {}, self.key)
        names = {*corpus.files, *corpus.rows}
        held = 0 if "val" in names else self.held
        splits = {"train": Samples(Streamed(Training(corpus, held), self.length, self.window, self.steps))}
        for split in ("val", "test"):
            if split in names:
                texts = [piece.text for piece in corpus.pieces(split)]
                splits[split] = Samples(Documents(texts, self.length))
        if held:
            first = [piece.text for piece in itertools.islice(corpus.pieces("train"), held)]
            splits["val"] = Samples(Documents(first, self.length))
        return Source(splits, [])
