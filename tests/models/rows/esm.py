"""ESM-2: masked LM, classification."""

import torch
import transformers as hf
from torch import Tensor, nn

from tests.models.parity import ODD_SHAPE, SHAPE, Row, Run, classify_text, masked, random_ids, sentences

USUAL = {
    "vocab_size": 33,
    **SHAPE,
    "layer_norm_eps": 1e-5,
    "pad_token_id": 1,
    "mask_token_id": 32,
    "position_embedding_type": "rotary",
    "token_dropout": True,
    "emb_layer_norm_before": False,
}
ODD = {
    **ODD_SHAPE,
    "layer_norm_eps": 1e-3,
    "rope_theta": 500.0,
    "tie_word_embeddings": False,
}
FREQUENCIES = ("esm.encoder.layer.*.attention.self.rotary_embeddings.inv_freq",)
BARE = tuple(name.removeprefix("esm.") for name in FREQUENCIES)


def config(**changes) -> hf.EsmConfig:
    return hf.EsmConfig(**{**USUAL, **changes})


def hidden(length: int) -> Run:
    """The logits of sequences in which mask tokens stand."""

    def run(ours: nn.Module, theirs: nn.Module) -> tuple[Tensor, Tensor]:
        tokens = random_ids(32, length, 4, pad=1)
        where = tokens.real & (torch.arange(length) % 5 == 2)
        value = tokens.value.masked_fill(where, theirs.config.mask_token_id)
        logits = theirs(input_ids=value, attention_mask=tokens.real.long()).logits
        return ours.head(ours(tokens, where))[tokens.real], logits[tokens.real]

    return run


def half(model: nn.Module) -> None:
    """As Meta's weights are."""
    frequency = model.esm.rotary_embeddings.inv_freq
    frequency.copy_(frequency.half())


ROWS = [
    Row("esm", lambda: hf.EsmForMaskedLM(config()), masked(33, pad=1), constant=FREQUENCIES),
    Row("esm hidden", lambda: hf.EsmForMaskedLM(config()), hidden(300), half, constant=FREQUENCIES),
    Row("esm odd", lambda: hf.EsmForMaskedLM(config(**ODD)), hidden(17), constant=FREQUENCIES),
    Row("esm bare", lambda: hf.EsmModel(config()), sentences(33, pad=1), constant=BARE),
    Row(
        "esm classifier",
        lambda: hf.EsmForSequenceClassification(config(num_labels=5)),
        classify_text(33, pad=1),
        constant=FREQUENCIES,
    ),
]
