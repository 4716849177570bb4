"""Raw data to tokens and back, and what predicting a token means."""

from zoo.tokenizers.tokenizer import Batch, Embed, Scores, Tokenizer, Tokens

__all__ = ["Batch", "Embed", "Scores", "Tokenizer", "Tokens"]
