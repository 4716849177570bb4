"""What may be drawn: equal to the reference's warpers, in their order."""

import pytest
import torch
import transformers.generation.logits_process as hf

from zoo.generation.warp import only_min_p, only_top_k, only_top_p, temperature_scaled, warped

SIZES = [5, 100, 5000]


def same(found: torch.Tensor, wanted: torch.Tensor, coarse: bool) -> bool:
    """Equal, but for which of equally likely tokens is left: the reference's sorting is not stable."""
    return torch.equal(found.sort().values, wanted.sort().values) if coarse else torch.equal(found, wanted)


def drawn(seed: int, size: int, coarse: bool) -> torch.Tensor:
    """Logits; coarse ones have many equals, as those of bfloat16 models have."""
    torch.manual_seed(seed)
    logits = 3 * torch.randn(4, size)
    return logits.bfloat16().float() if coarse else logits


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("coarse", [False, True])
def test_each_equals_the_reference(size, coarse):
    for seed in range(5):
        logits = drawn(seed, size, coarse)
        for value in (0.1, 0.7, 1.5):
            assert torch.equal(temperature_scaled(logits, value), hf.TemperatureLogitsWarper(value)(None, logits))
        for count in (1, 3, 50, 10_000):
            assert torch.equal(only_top_k(logits, count), hf.TopKLogitsWarper(count)(None, logits))
        for share in (0.0, 0.1, 0.5, 0.9, 0.999):
            assert same(only_top_p(logits, share), hf.TopPLogitsWarper(share)(None, logits), coarse)
        for share in (0.0, 0.05, 0.5, 1.0):
            assert torch.equal(only_min_p(logits, share), hf.MinPLogitsWarper(share)(None, logits))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("coarse", [False, True])
def test_together_they_equal_the_reference(size, coarse):
    """Also where fewer are left after top-k than are sorted."""
    for seed in range(30):
        logits = drawn(seed, size, coarse)
        for temperature, count, top, least in ((0.6, 50, 0.9, 0.02), (1.2, 7, 0.5, 0.3), (0.9, 200, 0.97, 0.0)):
            wanted = hf.TemperatureLogitsWarper(temperature)(None, logits)
            wanted = hf.TopPLogitsWarper(top)(None, hf.TopKLogitsWarper(count)(None, wanted))
            wanted = hf.MinPLogitsWarper(least)(None, wanted)
            assert same(warped(logits, temperature, count, top, least), wanted, coarse)
    assert warped(logits) is logits and warped(logits, top_p=1.0) is logits


@pytest.mark.parametrize("share", [0.3, 0.9, 0.999])
def test_the_rest_is_sorted_where_the_likeliest_are_not_enough(share):
    logits = torch.cat((drawn(0, 3000, False), 0.1 * drawn(1, 3000, False)))
    wanted = hf.TopPLogitsWarper(share)(None, logits)
    for likely in (1, 20, 500, 3000):
        assert torch.equal(only_top_p(logits, share, likely), wanted)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"temperature": 0.0}, "temperature=0.0 is not above 0; Greedy takes the likeliest token"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"top_k": 0}, "top_k=0 leaves no token"),
        ({"top_p": 1.1}, "top_p=1.1 is no share"),
        ({"min_p": -0.1}, "min_p=-0.1 is no share"),
    ],
)
def test_senseless_values_are_told(values, message):
    with pytest.raises(ValueError, match=message):
        warped(torch.zeros(1, 2), **values)
