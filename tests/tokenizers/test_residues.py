"""ESM's token dropout."""

import torch

from zoo.tokenizers import Ids, ResidueEmbed


def test_what_is_left_is_scaled_to_what_training_left():
    embed = ResidueEmbed(4, Ids(10, pad=1, mask=9))
    value = torch.tensor([[3, 4, 5, 9], [6, 7, 1, 1]])
    with torch.no_grad():
        x, table = embed(value), embed.table.weight
        assert torch.allclose(x[0, :3], table[[3, 4, 5]] * 0.88 / 0.75) and not x[0, 3].any()
        assert torch.allclose(x[1, :2], table[[6, 7]] * 0.88)
        hidden = torch.tensor([[False, True, False, False], [False, True, False, False]])
        y = embed(value, hidden)
        assert torch.allclose(y[0, [0, 2]], table[[3, 5]] * 0.88 / 0.5) and torch.allclose(
            y[1, 0], table[6] * 0.88 / 0.5
        )
        assert embed(torch.full((1, 3), 9)).isfinite().all()
    assert embed.vectors() is embed.table.weight
