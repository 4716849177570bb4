"""Text as characters."""

import pytest
import torch

from zoo.tokenizers import Characters


def test_there_and_back():
    tokenizer = Characters("\n abcé")
    assert tokenizer.vocabulary == 6
    ids = tokenizer.encode("a bé\n")
    assert ids.tolist() == [2, 1, 3, 5, 0] and tokenizer.decode(ids) == "a bé\n"
    assert tokenizer.encode("").shape == (0,) and tokenizer.encode("").dtype == torch.long
    assert tokenizer.sizes(torch.device("cpu"))[ids].sum() == len("a bé\n".encode())


def test_it_is_a_text_tokenizer_without_special_tokens():
    tokenizer = Characters("ab ")
    tokens = tokenizer(["ab", "b"])
    assert tokens.value.shape == (2, 2) and tokens.padding.tolist() == [[True, True], [True, False]]
    assert tokenizer.ends == frozenset() and tokenizer.find("mask") is None
    prediction = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]))
    scores = tokenizer.score(prediction, torch.tensor([0, 1]))
    assert scores["loss"][0] == pytest.approx(-torch.tensor([0.5, 0.8]).log().sum()) and scores["accuracy"][0] == 2
    assert tokenizer.agrees(Characters("ab ")) and not tokenizer.agrees(Characters("ba "))
    assert tokenizer == Characters("ab ")


def test_what_is_refused():
    with pytest.raises(ValueError, match="'a' stands twice in alphabet='aba'"):
        Characters("aba")
    with pytest.raises(ValueError, match="'!' is no character of alphabet='ab'; add it"):
        Characters("ab").encode("ab!")
    with pytest.raises(ValueError, match="an alphabet has no mask token; take BPE"):
        Characters("ab").special("mask")
