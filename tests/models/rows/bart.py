"""BART: fine-tuned with its bias, and as pre-trained."""

import torch
import transformers as hf
from torch import Tensor, nn

from tests.models.parity import PAIR_SHAPE, Row, random_ids, seq2seq


def config(**changes) -> hf.BartConfig:
    usual = {
        "vocab_size": 97,
        **PAIR_SHAPE,
        "max_position_embeddings": 40,
    }
    return hf.BartConfig(**{**usual, **changes})


ODD = {
    "d_model": 30,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 5,
    "decoder_attention_heads": 5,
    "encoder_ffn_dim": 41,
    "decoder_ffn_dim": 41,
    "max_position_embeddings": 17,
    "activation_function": "gelu_new",
    "decoder_start_token_id": 3,
    "pad_token_id": 0,
}


def biased(model: nn.Module) -> None:
    """The bias of the logits is zero in most files; here it is not."""
    model.final_logits_bias.normal_(std=0.3)


def pretrained(ours: nn.Module, theirs: nn.Module) -> tuple[Tensor, Tensor]:
    """The states of the bare model, times its table."""
    source, written = random_ids(97, 11, 4, 1), random_ids(97, 7, 0)
    start = torch.full((2, 1), theirs.config.decoder_start_token_id)
    given = torch.cat((start, written.value[:, :-1]), 1)
    states = theirs(source.value, source.real.long(), decoder_input_ids=given).last_hidden_state
    return ours.head(ours(source, written)), states @ theirs.shared.weight.T


ROWS = [
    Row("bart", lambda: hf.BartForConditionalGeneration(config()), seq2seq(pad=1), biased),
    Row("bart odd", lambda: hf.BartForConditionalGeneration(config(**ODD)), seq2seq(length=17, target=13), biased),
    Row("bart pretrained", lambda: hf.BartModel(config()), pretrained),
]
