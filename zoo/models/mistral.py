"""Mistral (Jiang et al. 2023): LLaMA with grouped queries and, in its first version, a sliding window."""

from zoo.models.llama import BASE, CLASSIFIER, FREQUENCIES, KEYS, LANGUAGE, TRUNK, LLaMA, gather_rope
from zoo.models.published import Published, Size
from zoo.nn import Causal, Window
from zoo.processors import TextProcessor


class Mistral(LLaMA):
    """Mistral 7B v0.1 by default; later versions have no window.

    A token sees itself and the ``window - 1`` before it, or all before it where that is None.  The other arguments are
    those of ``LLaMA``, and so is what raises ValueError.
    """

    def __init__(
        self,
        dim: int = 4096,
        depth: int = 32,
        heads: int = 32,
        kv_heads: int | None = 8,
        hidden: int | None = 14336,
        theta: float = 10_000.0,
        window: int | None = 4096,
        eps: float = 1e-5,
        dropout: float = 0.0,
        head_dim: int | None = None,
        length: int = 32768,
    ):
        mask = Causal() if window is None else Causal() & Window(window)
        super().__init__(dim, depth, heads, kv_heads, hidden, theta, None, mask, eps, dropout, head_dim, length)


THIRD = Size(7_248_023_552, {"vocab_size": 32768}, window=None, theta=1e6)

PUBLISHED = Published(
    "mistral",
    Mistral,
    KEYS | {"window": "sliding_window"},
    {"MistralForCausalLM": LANGUAGE, "MistralForSequenceClassification": CLASSIFIER},
    trunk=TRUNK,
    processor=TextProcessor(),
    base=BASE | {"max_position_embeddings": 131072},
    fixed={"hidden_act": "silu", "rope_parameters.rope_type": "default"},
    drop=FREQUENCIES,
    clean=gather_rope,
    sizes={"mistral-7b": Size(7_241_732_096), "mistral-7b-v0.3": THIRD},
)
