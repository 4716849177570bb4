"""The same decoder in several libraries, for the benchmarks: each gets a prompt and writes on, always the likeliest."""

# Shapes: B sequences, T tokens of the prompt, N new tokens.

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import torch
from torch import Tensor, nn

import zoo
from zoo.generation import Greedy
from zoo.precision import Precision, for_inference, weight_bytes
from zoo.tasks import CausalLM
from zoo.tokenizers import Tokens

VOCABULARY = 50257
STD = 0.1  # of the random weights; with the usual 0.02 and a tied head the likeliest token is always the last one again
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
OURS, REFERENCE = "zoo", "transformers"


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder; heads are 64 wide.  ``family`` is "gpt2" (learned positions, LayerNorm, MLP, biases) or
    "llama" (rotary positions, RMSNorm, SwiGLU of 8/3 the width, no biases).  The head is tied in both."""

    name: str
    family: str
    width: int
    depth: int

    @property
    def heads(self) -> int:
        return self.width // 64

    @property
    def hidden(self) -> int:
        return self.width * 8 // 3 if self.family == "llama" else self.width * 4

    def __str__(self) -> str:
        return f"{self.name} ({self.depth} layers x {self.width}, {self.family}'s architecture)"

    def cache_bytes(self, precision: str) -> int:
        """Of the keys and values of one token of one sequence."""
        return 2 * self.depth * self.width * (2 if precision == "bf16" else 4)


SHAPES = {
    "small": Shape("small", "gpt2", 384, 6),
    "gpt2": Shape("gpt2", "gpt2", 768, 12),
    "llama": Shape("llama", "llama", 384, 6),
}


@dataclass(frozen=True)
class Peer:
    """``write`` goes on from ids (B, T) with N more: (B, N).  ``head`` is the module that predicts each token."""

    library: str
    way: str
    precision: str
    head: nn.Module
    write: Callable[[Tensor, int], Tensor]
    weight_bytes: int = 0  # that it reads for a token, where it was counted

    @property
    def key(self) -> tuple[str, str, str]:
        return self.library, self.way, self.precision


class Family:
    """All peers of one shape with ``positions``; transformers' random weights are ours too."""

    def __init__(self, shape: Shape, positions: int):
        self.shape, self.positions = shape, positions
        self.place = tempfile.TemporaryDirectory()
        torch.manual_seed(0)
        published(shape, positions).save_pretrained(self.place.name)

    # ---- ours

    def plain(self, precision: str) -> Peer:
        task = self._task().to(DTYPES[precision])
        return ours(task, "as loaded", precision)

    def prepared(self, precision: Precision) -> Peer:
        return ours(for_inference(self._task(), precision), "for_inference", precision)

    def _task(self) -> CausalLM:
        return zoo.load(self.place.name)

    # ---- others

    def reference(self, precision: str) -> Peer:
        model = self._reference(precision)

        def write(prompt: Tensor, length: int) -> Tensor:
            mask = torch.ones_like(prompt)
            return model.generate(prompt, attention_mask=mask, max_new_tokens=length, do_sample=False)[
                :, prompt.size(1) :
            ]

        return Peer(REFERENCE, "dynamic cache", precision, model.lm_head, write)

    def static(self, precision: str) -> Peer:
        """With a cache of fixed size, compiled at its first call."""
        from transformers import CompileConfig

        model, compiling = self._reference(precision), CompileConfig()
        compiling._compile_all_devices = True  # else it compiles on accelerators only

        def write(prompt: Tensor, length: int) -> Tensor:
            return model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=length,
                do_sample=False,
                cache_implementation="static",
                compile_config=compiling,
            )[:, prompt.size(1) :]

        return Peer(REFERENCE, "static cache, compiled", precision, model.lm_head, write)

    def _reference(self, precision: str) -> nn.Module:
        from transformers import AutoModelForCausalLM

        return AutoModelForCausalLM.from_pretrained(self.place.name, dtype=DTYPES[precision]).eval()

    def litgpt(self, precision: str) -> Peer:
        from litgpt import GPT, Config
        from litgpt.generate.base import batched_generate_fn, generate

        shape, llama = self.shape, self.shape.family == "llama"
        config = Config(
            block_size=self.positions,
            n_layer=shape.depth,
            n_embd=shape.width,
            n_head=shape.heads,
            padded_vocab_size=VOCABULARY,
            intermediate_size=shape.hidden,
            norm_class_name="RMSNorm" if llama else "LayerNorm",
            mlp_class_name="LLaMAMLP" if llama else "GptNeoxMLP",
            gelu_approximate="none" if llama else "tanh",
            bias=not llama,
            parallel_residual=False,
            rotary_percentage=1.0,  # it has no learned positions
        )
        model = GPT(config)
        model.lm_head.weight = model.transformer.wte.weight
        model = randomized(model, precision)

        def write(prompt: Tensor, length: int) -> Tensor:
            total = prompt.size(1) + length
            model.clear_kv_cache()
            model.max_seq_length = total
            model.set_kv_cache(batch_size=len(prompt), dtype=DTYPES[precision])
            if len(prompt) == 1:
                return generate(model, prompt[0], total, temperature=0.0, include_prompt=False)[None]
            how = {"sample_args": {"temperature": 0.0}, "include_prompt": False, "include_eos": False}
            steps = batched_generate_fn(model, prompt, total, **how)
            return torch.stack([torch.cat(step) for step in steps], 1)

        return Peer("litgpt", "generate", precision, model.lm_head, write)

    def x_transformers(self, precision: str) -> Peer:
        from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

        shape, llama = self.shape, self.shape.family == "llama"
        how = {"rotary_pos_emb": True, "use_rmsnorm": True, "ff_swish": True, "ff_glu": True, "ff_no_bias": True}
        layers = Decoder(
            dim=shape.width,
            depth=shape.depth,
            heads=shape.heads,
            ff_mult=shape.hidden / shape.width,
            attn_flash=True,
            **(how if llama else {}),
        )
        network = TransformerWrapper(
            num_tokens=VOCABULARY,
            max_seq_len=self.positions,
            attn_layers=layers,
            use_abs_pos_emb=not llama,
            tie_embedding=True,
        )
        model = AutoregressiveWrapper(randomized(network, precision)).eval()

        @torch.inference_mode()
        def write(prompt: Tensor, length: int) -> Tensor:
            return model.generate(prompt, length, temperature=0.0, cache_kv=True)

        return Peer("x-transformers", "cache_kv", precision, network, write)


def missing() -> list[str]:
    """Of the peers that are no part of the tests, those that are not installed."""
    return [name for name in ("litgpt", "x-transformers") if find_spec(name.replace("-", "_")) is None]


def published(shape: Shape, positions: int) -> nn.Module:
    """transformers' model without an end of a sequence, so that all write as much as they are asked for."""
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    about = {"vocab_size": VOCABULARY, "bos_token_id": None, "eos_token_id": None, "initializer_range": STD}
    if shape.family == "gpt2":
        sizes = {"n_embd": shape.width, "n_layer": shape.depth, "n_head": shape.heads, "n_positions": positions}
        return GPT2LMHeadModel(GPT2Config(**sizes, **about))
    config = LlamaConfig(
        hidden_size=shape.width,
        num_hidden_layers=shape.depth,
        num_attention_heads=shape.heads,
        intermediate_size=shape.hidden,
        max_position_embeddings=positions,
        tie_word_embeddings=True,
        **about,
    )
    return LlamaForCausalLM(config)


def ours(task: CausalLM, way: str, precision: str) -> Peer:
    def write(prompt: Tensor, length: int) -> Tensor:
        return torch.stack(task.generate(Tokens(prompt), length, Greedy()).tokens)

    return Peer(OURS, way, precision, task.head, write, read_bytes(task))


def read_bytes(task: CausalLM) -> int:
    """Of the weights that a token reads: all but the tables of which it takes a row."""
    used = {id(weight) for weight in task.head.parameters()}
    tables = [*task.embed.parameters(), *task.backbone.position.parameters()]
    return weight_bytes(task) - sum(table.nbytes for table in tables if id(table) not in used)


def randomized(model: nn.Module, precision: str) -> nn.Module:
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.normal_(std=STD)
    return model.to(DTYPES[precision]).eval()
