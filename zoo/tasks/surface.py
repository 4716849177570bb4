"""What a task can be asked for besides training: features, intermediate states, attention, frozen layers; the words are
timm's (Wightman 2019) where timm has one."""

# Shapes: B batch, T tokens (queries), S keys, D model width, H heads, h w a grid of tokens.

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from zoo.nn import Backbone, EncoderDecoder, Learned2d, Pool, Sinusoidal2d
from zoo.parallel.shards import gathered
from zoo.tokenizers import Batch, Tokenizer, Tokens

Raw: TypeAlias = "Tokens | Iterable[Any]"  # tokens, a batch of images (B, C, H, W), or a list of raw items


class Surface(nn.Module):
    """Base of ``Task``.  ``x`` is always ``Tokens``, a batch of images, or a list of raw items: texts, images, sounds.

    Nothing here changes the mode or switches gradients off, but ``attention``: call ``eval`` and ``torch.no_grad`` as
    with any module.
    """

    backbone: Backbone | EncoderDecoder
    tokenizer: Tokenizer
    target_tokenizer: Tokenizer | None

    # ---- what a task says

    def states(self, tokens: Tokens) -> tuple[Tensor, Tensor | None]:
        """The last states (B, T, D), the pool's tokens in front, and their padding (B, T), True where real; of an
        encoder-decoder the encoder's."""
        raise NotImplementedError

    def forward_head(self, states: Tensor, pre_logits: bool = False, padding: Tensor | None = None) -> Tensor:
        """From the states to what the task predicts; with ``pre_logits`` to (B, D), what the head reads, or the mean
        of the real tokens where it reads each of them (timm: the same)."""
        raise NotImplementedError

    def observe(self, batch: Batch) -> None:
        """Read a batch, the target where there is one, so that ``attention`` sees what looks where."""
        raise NotImplementedError

    # ---- features

    def tokens(self, x: Raw, target: bool = False) -> Tokens:
        """On the task's device, as its tokenizer makes them, or that of the ``target``.  Raises ValueError for a single
        raw item."""
        if not isinstance(x, Tokens):
            if isinstance(x, str) or not isinstance(x, Iterable):
                raise ValueError(f"{x!r} is one raw item; give a list of them, such as [x]")
            x = (self.target_tokenizer if target and self.target_tokenizer else self.tokenizer)(list(x))
        return x.to(next(self.parameters()).device)

    def features(self, x: Raw) -> Tensor:
        """(B, D) what the head reads (timm: ``forward_head(..., pre_logits=True)``, or ``num_classes=0``)."""
        states, padding = self.states(self.tokens(x))
        return self.forward_head(states, pre_logits=True, padding=padding)

    def forward_features(self, x: Raw) -> Tensor:
        """(B, T, D) the last states, the pool's tokens in front (timm: the same)."""
        return self.states(self.tokens(x))[0]

    def forward_intermediates(
        self,
        x: Raw,
        indices: int | Sequence[int] | None = None,
        norm: bool = False,
        output_fmt: Literal["NLC", "NCHW"] = "NLC",
        return_prefix_tokens: bool = False,
        intermediates_only: bool = False,
    ) -> Any:
        """The last states, and those after each block without the pool's tokens: (y, [(B, T, D), ...]).  timm: the
        same, whose ``output_fmt`` is "NCHW" if not given: (B, D, h, w).

        ``indices`` picks blocks: the last so many, or those of a list.  ``norm`` applies the backbone's last norm.
        ``return_prefix_tokens`` makes each a pair with the pool's tokens, ``intermediates_only`` leaves y out.  Raises
        ValueError for blocks that there are not, and for "NCHW" where tokens have no grid.
        """
        found: list[Tensor] = []
        ask = self.trunk.register_forward_pre_hook(
            lambda part, inputs, words: (inputs, {**words, "states": found}), with_kwargs=True
        )
        try:
            last = self.forward_features(x)
        finally:
            ask.remove()
        ahead, picked = self.num_prefix_tokens, [found[i] for i in chosen(indices, len(found))]
        picked = [self.trunk.last_norm(state) for state in picked] if norm else picked
        rest = [state[:, ahead:] for state in picked]
        if output_fmt == "NCHW":
            rest = [state.mT.unflatten(-1, grid(self.trunk)) for state in rest]
        elif output_fmt != "NLC":
            raise ValueError(f"output_fmt={output_fmt!r} is neither 'NLC' nor 'NCHW'")
        result = list(zip(rest, (state[:, :ahead] for state in picked))) if return_prefix_tokens else rest
        return result if intermediates_only else (last, result)

    def get_intermediate_layers(
        self,
        x: Raw,
        n: int | Sequence[int] = 1,
        reshape: bool = False,
        return_prefix_tokens: bool = False,
        norm: bool = False,
    ) -> list:
        """``forward_intermediates`` without the last states; ``reshape`` gives grids (timm: the same)."""
        layout: Literal["NLC", "NCHW"] = "NCHW" if reshape else "NLC"
        return self.forward_intermediates(x, n, norm, layout, return_prefix_tokens, intermediates_only=True)

    @torch.no_grad()
    def attention(self, x: Raw | Batch, target: Raw | None = None) -> dict[str, Tensor]:
        """(B, H, T, S) float32 softmax weights by the path of each attention ("backbone.blocks.3.mixer",
        "backbone.decoder.blocks.0.cross"), in evaluation mode, under any kernel.

        ``target`` is the other half of a pair: what the decoder has written, or the other tower reads.  In the one
        tower of a sentence encoder that is "target_backbone.blocks.3.mixer".
        """
        if not isinstance(x, Batch):
            x = Batch(self.tokens(x), None if target is None else self.tokens(target, target=True))
        with evaluating(self), torch.compiler.set_stance("force_eager"), recording(self) as maps:
            self.observe(x.to(next(self.parameters()).device))
        return maps

    # ---- sizes

    @property
    def trunk(self) -> Backbone:
        """The backbone that reads the input."""
        return self.backbone.encoder if isinstance(self.backbone, EncoderDecoder) else self.backbone

    @property
    def num_features(self) -> int:
        """D (timm: the same)."""
        return self.trunk.dim

    @property
    def num_prefix_tokens(self) -> int:
        """How many tokens the pool puts before the sequence (timm: the same)."""
        weight = next(self.parameters())
        nothing = weight.new_zeros(1, 0, self.num_features)
        pools = [part for part in self.children() if isinstance(part, Pool)]
        return pools[0].extend(nothing, None)[0].size(1) if pools else 0

    @property
    def feature_info(self) -> list[dict[str, Any]]:
        """Name and width of each block (timm: the same; its ``reduction`` has no meaning for text and sound)."""
        names = {part: name for name, part in self.named_modules()}
        return [{"module": names[block], "num_chs": self.num_features} for block in self.trunk.blocks]


@contextmanager
def evaluating(task: nn.Module) -> Iterator[None]:
    """Evaluation mode for the time of a ``with``; then each part has its own mode again.  Weights are whole on each
    device."""
    modes = {part: part.training for part in task.modules()}
    task.eval()
    try:
        with gathered(task):
            yield
    finally:
        for part, mode in modes.items():
            part.training = mode


@contextmanager
def recording(task: nn.Module) -> Iterator[dict[str, Tensor]]:
    """For the time of a ``with``, note the attention of every backbone below by its path.  One that is there under two
    paths has the first when it is called first, then the other."""
    maps: dict[str, Tensor] = {}
    paths: dict[nn.Module, list[str]] = {}
    for path, part in task.named_modules(remove_duplicate=False):
        if isinstance(part, Backbone):
            paths.setdefault(part, []).append(path)

    def ask(part: nn.Module, inputs: tuple, words: dict) -> tuple[tuple, dict]:
        return inputs, {**words, "return_attention": True}

    def note(part: nn.Module, inputs: tuple, output: tuple[Tensor, dict[str, Tensor]]) -> Tensor:
        path = paths[part].pop(0) if len(paths[part]) > 1 else paths[part][0]
        maps.update({f"{path}.{name}": value for name, value in output[1].items()})
        return output[0]

    hooks = [part.register_forward_pre_hook(ask, with_kwargs=True) for part in paths]
    hooks += [part.register_forward_hook(note) for part in paths]
    try:
        yield maps
    finally:
        for hook in hooks:
            hook.remove()


def chosen(indices: int | Sequence[int] | None, depth: int) -> list[int]:
    """All of ``depth`` blocks, the last so many, or those of a list.  Raises ValueError where there are fewer."""
    if indices is None:
        return list(range(depth))
    picked = list(range(depth - indices, depth)) if isinstance(indices, int) else list(indices)
    if not picked or not all(-depth <= i < depth for i in picked) or (isinstance(indices, int) and indices > depth):
        raise ValueError(f"indices={indices} of {depth} blocks; give a number from 1 to {depth}, or a list of blocks")
    return picked


def grid(backbone: Backbone) -> tuple[int, int]:
    """Tokens down and across.  Raises ValueError where positions have no grid."""
    position = backbone.position
    if not isinstance(position, (Learned2d, Sinusoidal2d)):
        raise ValueError(f"tokens with {type(position).__name__} positions have no grid; use output_fmt='NLC'")
    return position.height, position.width
