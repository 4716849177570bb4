"""One thread and one seed: these models are tiny, and a test that fails must fail again."""

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded_on_one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
