import lightning.pytorch as pl
import pytest
import torch
from torch._dynamo.utils import counters

from tests.callbacks.ragged import batches, task, trained
from zoo import ActivationCheckpointing, Compile


class Graphs(pl.Callback):
    """How many have been compiled after each batch."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def on_train_batch_end(self, *rest) -> None:
        self.counts.append(counters["stats"]["unique_graphs"])


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    counters.clear()
    yield
    torch.compiler.reset()


def test_all_lengths_are_served_by_a_handful_of_graphs_and_the_losses_are_those_of_eager():
    data, graphs = batches(16), Graphs()
    plain = trained(task(), data)
    found = trained(task(), data, Compile(backend="aot_eager"), graphs)
    assert found == pytest.approx(plain, abs=1e-5)
    assert graphs.counts[0] >= 1 and graphs.counts[-1] <= 8  # one kind of block
    assert graphs.counts[-1] == graphs.counts[6]  # nothing new later on
    assert not counters["graph_break"]


def test_layers_share_what_is_compiled():
    graphs = Graphs()
    trained(task(depth=6), batches(1), Compile(backend="aot_eager"), graphs)
    assert graphs.counts == [2]  # the layer that makes the mask, and those that read it


def test_compiled_blocks_are_computed_again_where_that_is_asked_for():
    data = batches(4)
    plain = trained(task(), data)
    found = trained(task(), data, Compile(backend="aot_eager"), ActivationCheckpointing())
    assert found == pytest.approx(plain, abs=1e-5)


def test_names_of_weights_stay_and_who_looks_at_whom_can_still_be_asked():
    module, data = task(), batches(2)
    names, before = list(module.state_dict()), task()
    trained(module, data, Compile(backend="aot_eager"))
    assert list(module.state_dict()) == names
    before.load_state_dict(module.state_dict())
    with torch.no_grad(), torch.compiler.set_stance("force_eager"):
        maps, same = module.eval().attention(data[0]), before.eval().attention(data[0])
    assert maps.keys() == same.keys()
    assert all(torch.equal(maps[name], same[name]) for name in maps)
