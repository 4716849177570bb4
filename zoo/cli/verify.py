"""``verify``: a directory loaded in both implementations, compared layer by layer on random input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor, nn

import zoo
from zoo.cli.arguments import Arguments
from zoo.cli.errors import UserError, guarded, quiet
from zoo.nn import Backbone, Learned
from zoo.tasks import Classify, Contrastive, Seq2Seq, Task
from zoo.tokenizers import Frames, Patches, TextTokenizer, Tokenizer, Tokens

TOLERANCE = 1e-4  # of the largest value
LENGTH, PADDED = 12, 5  # tokens of a text, and how many of the second one's are padding

Pair = tuple[str, Tensor, Tensor]  # what it is, ours, theirs


def main(argv: list[str]) -> int:
    parser = Arguments(
        "verify",
        "Compare a published directory in both implementations, layer by layer, on random input.",
    )
    parser.add_argument("directory", help="a directory as published, or a model of the hub")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="share of the largest value (%(default)s)")
    options = parser.parse_args(argv[1:])
    quiet()
    return guarded(lambda: verify(options.directory, options.tolerance))


def verify(directory: str, tolerance: float) -> None:
    """Raises UserError, which names the first layer that diverges."""
    ours, theirs = zoo.load(directory), reference(directory)
    torch.manual_seed(0)
    with torch.no_grad():
        rows = [(name, apart(a, b), float(b.abs().max())) for name, a, b in compare(ours, theirs)]
    console = Console(highlight=False)
    table = Table("", "difference", "largest value", box=None, pad_edge=False)
    for name, difference, largest in rows:
        table.add_row(Text(name), f"{difference:.1e}", f"{largest:.4g}")
    console.print(table)
    wrong = next((row for row in rows if not row[1] <= tolerance), None)
    if wrong:
        raise UserError(f"{wrong[0]} is the first to diverge: by {wrong[1]:.1e} of its largest value {wrong[2]:.4g}")
    console.print(f"equal within {max(difference for _, difference, _ in rows):.1e} of the largest values")


def reference(directory: str) -> nn.Module:
    """The same directory in transformers."""
    try:
        import transformers
    except ImportError:
        raise UserError("verify compares with transformers, which is not installed: pip install transformers") from None
    config = transformers.AutoConfig.from_pretrained(directory)
    name = (config.architectures or ["?"])[0]
    if not hasattr(transformers, name):
        raise UserError(f"transformers has no {name}, which config.json names")
    options: dict[str, Any] = {"dtype": torch.float32, "attn_implementation": "eager"}
    return getattr(transformers, name).from_pretrained(directory, **options).eval()


def compare(ours: Task, theirs: nn.Module) -> Iterator[Pair]:
    """The embedding, every layer and the output of both, on the same input."""
    tokens, given = draw(ours.tokenizer, theirs, longest(ours))
    real = {"backbone": tokens.padding}
    run: Callable[[], Tensor]
    if isinstance(ours, Seq2Seq):
        target, _ = draw(ours.target_tokenizer, theirs, longest(ours), padded=0)
        start = torch.full((len(target), 1), theirs.config.decoder_start_token_id)
        given["decoder_input_ids"] = torch.cat((start, target.value[:, :-1]), 1)
        given["use_cache"] = False
        real = {"backbone.encoder": tokens.padding, "backbone.decoder": None}
        run = lambda: ours.head(ours(tokens, target))  # noqa: E731
    elif isinstance(ours, Contrastive) and ours.target_backbone is not ours.backbone:
        target, more = draw(ours.target_tokenizer, theirs, longest(ours))
        given |= more
        real["target_backbone"] = target.padding
        run = lambda: ours.similarity(tokens, target)  # noqa: E731
    elif isinstance(ours, (Classify, Contrastive)):
        run = lambda: ours(tokens)  # noqa: E731
    else:
        run = lambda: ours.head(ours(tokens))  # noqa: E731
    seen = {path: watch(ours.get_submodule(path)) for path in real}
    mine, found = run(), theirs(**given, output_hidden_states=True)
    for path, padding in real.items():
        yield from layers(path, seen[path], states(found, path), padding)
    output = found.get("logits_per_image", found.get("logits"))
    if output is not None:  # a model without a head ends in its last layer
        rows = tokens.padding if mine.dim() == 3 and "backbone" in real else None
        yield "output", chosen(mine, rows), chosen(output, rows)


def longest(task: Task) -> int:
    """Tokens of a text that every position table has room for."""
    tables = [part for part in task.modules() if isinstance(part, Learned)]
    return min([LENGTH, *(len(part.weight) - part.offset for part in tables)])


def draw(
    tokenizer: Tokenizer | None, theirs: nn.Module, length: int, padded: int = PADDED
) -> tuple[Tokens, dict[str, Any]]:
    """Random input for ours and the same for theirs: two sequences, the second of a text padded."""
    if isinstance(tokenizer, TextTokenizer):
        value = torch.randint(tokenizer.vocabulary, (2, length))
        padding = torch.ones(2, length, dtype=torch.bool)
        padding[1, length - min(padded, length - 1) :] = False
        special = [tokenizer.find(role) for role in ("pad", "mask", "eos")]
        for token in (one for one in special if one is not None):
            value = torch.where(value == token, (token + 1) % tokenizer.vocabulary, value)
        ends = tokenizer.find("eos")
        if ends is not None:  # what a text tower pools; where the oldest CLIP files say 2, they mean the highest id
            value[torch.arange(2), padding.sum(1) - 1] = tokenizer.vocabulary - 1 if ends == 2 else ends
        value = value.masked_fill(~padding, tokenizer.filler)
        return Tokens(value, padding if padded else None), {"input_ids": value, "attention_mask": padding.long()}
    if isinstance(tokenizer, Patches):
        value = torch.randn(2, tokenizer.length or 1, tokenizer.features)
        return Tokens(value), {"pixel_values": tokenizer.unpatchify(value)}
    assert isinstance(tokenizer, Frames)
    config, name = theirs.config, theirs.main_input_name
    frames = 2 * config.max_source_positions if name == "input_features" else config.max_length
    value = torch.randn(2, frames, tokenizer.features)
    return Tokens(value), {name: value.mT if name == "input_features" else value}


def watch(backbone: Backbone) -> list[Tensor]:
    """A list that the next forward fills: the embedding, each layer's output, the last norm's."""
    seen: list[Tensor] = []
    for part in (backbone.drop, *backbone.blocks, backbone.last_norm):
        part.register_forward_hook(lambda module, given, output: seen.append(output))
    return seen


def states(found: Any, path: str) -> tuple[Tensor, ...]:
    """Their hidden states of one of our backbones."""
    if path == "backbone.encoder":
        return found.encoder_hidden_states
    if path == "backbone.decoder":
        return found.decoder_hidden_states
    if "vision_model_output" in found:
        return (found.vision_model_output if path == "backbone" else found.text_model_output).hidden_states
    return found.hidden_states


def layers(path: str, ours: list[Tensor], theirs: tuple[Tensor, ...], padding: Tensor | None) -> Iterator[Pair]:
    """Pairs of states; their last one is that of the last layer in some models, of the last norm in others."""
    *inner, normed = ours
    for i, state in enumerate(theirs):
        mine = inner[i]
        if i == len(theirs) - 1 and apart(normed, state) < apart(mine, state):
            mine = normed
        name = f"{path}.blocks.{i - 1}" if i else f"{path}: embedding"
        yield name, chosen(mine, padding), chosen(state, padding)


def chosen(state: Tensor, padding: Tensor | None) -> Tensor:
    return state if padding is None else state[padding]


def apart(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, as a share of the largest value; infinite for other shapes."""
    if ours.shape != theirs.shape:
        return float("inf")
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-12))
