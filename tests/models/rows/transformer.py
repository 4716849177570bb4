"""The original Transformer: Marian with one vocabulary, FSMT with two."""

import torch
import transformers as hf
from torch import Tensor, nn

from tests.models.parity import PAIR_SHAPE, Row, Run, random_ids, seq2seq
from tests.models.rows.bart import biased

USUAL = {
    **PAIR_SHAPE,
    "scale_embedding": True,
}
ODD = {
    "d_model": 30,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 5,
    "decoder_attention_heads": 5,
    "encoder_ffn_dim": 41,
    "decoder_ffn_dim": 53,
}
TABLES = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


def marian(**changes) -> hf.MarianMTModel:
    usual = {
        "vocab_size": 97,
        "pad_token_id": 96,
        "decoder_start_token_id": 96,
        "eos_token_id": 0,
        "activation_function": "swish",
    }
    return hf.MarianMTModel(hf.MarianConfig(**USUAL | usual | changes))


def fsmt(**changes) -> hf.FSMTForConditionalGeneration:
    return hf.FSMTForConditionalGeneration(
        hf.FSMTConfig(**USUAL | {"src_vocab_size": 97, "tgt_vocab_size": 83} | changes)
    )


def learning_pad(model: nn.Module) -> None:
    """A decoder of Marian begins with the pad token, whose vector the reference keeps from learning where it is read,
    though not where it is written; here it learns in both places, as ours does."""
    biased(model)
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.padding_idx = None


@torch.no_grad()
def fixed_tables(model: nn.Module) -> None:
    """FSMT's tables are parameters of the reference, though fixed ones by their definition."""
    for half in (model.model.encoder, model.model.decoder):
        table = half.embed_positions
        table.weight.copy_(table.get_embedding(*table.weight.shape, table.padding_idx))
        table.weight.requires_grad_(False)


def translated(length: int = 11, target: int = 7, pad: int = 1) -> Run:
    """The logits of every target token; FSMT masks the future only where it keeps no cache."""

    def run(ours: nn.Module, theirs: nn.Module) -> tuple[Tensor, Tensor]:
        source, written = random_ids(97, length, 4, pad), random_ids(83, target, 0)
        start = torch.full((2, 1), theirs.config.decoder_start_token_id)
        given = torch.cat((start, written.value[:, :-1]), 1)
        logits = theirs(source.value, source.real.long(), decoder_input_ids=given, use_cache=False).logits
        return ours.head(ours(source, written)), logits

    return run


ROWS = [
    Row("marian transformer", marian, seq2seq(96, pad=96), learning_pad),
    Row(
        "marian transformer odd",
        lambda: marian(**ODD, pad_token_id=0, decoder_start_token_id=2, eos_token_id=1, activation_function="relu"),
        seq2seq(length=17, target=13),
        biased,
    ),
    Row("fsmt transformer", fsmt, translated(), fixed_tables, constant=TABLES),
    Row(
        "fsmt transformer odd",
        lambda: fsmt(
            **ODD, src_vocab_size=97, tgt_vocab_size=97, activation_function="gelu", pad_token_id=3, eos_token_id=1
        ),
        translated(17, 13, 3),
        fixed_tables,
        constant=TABLES,
    ),
]
