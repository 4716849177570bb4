import importlib

import pytest
from jsonargparse import ActionConfigFile, ArgumentParser, Namespace
from lightning.pytorch import LightningDataModule
from lightning.pytorch.cli import LightningArgumentParser

from zoo import EXPORTS
from zoo.cli import configs
from zoo.cli.parsing import Remembering, Unfit, frozen
from zoo.tasks import Task


def parsed(kind: type[LightningArgumentParser], name: str, *more: str) -> tuple[str, int]:
    """What a parser makes of a shipped config, and in how many parses of the arguments of a class."""
    for module in EXPORTS:
        importlib.import_module(module)
    calls, inner = [], ArgumentParser.parse_object

    def counted(self, *args, **kwargs):
        calls.append(self)
        return inner(self, *args, **kwargs)

    ArgumentParser.parse_object = counted
    try:
        parser = kind(exit_on_error=False)
        parser.add_argument("--config", action=ActionConfigFile)
        parser.add_argument("--trainer", type=dict)
        parser.add_argument("--seed_everything", type=int)
        parser.add_subclass_arguments(Task, "model")
        parser.add_subclass_arguments(LightningDataModule, "data")
        found = parser.parse_args([f"--config={configs.resolve(name)}", "--model.init_args.classes=3", *more])
    finally:
        ArgumentParser.parse_object = inner
    return parser.dump(found, skip_validation=True), len(calls)


@pytest.mark.parametrize(
    "name, more",
    [
        ("vit_digits", ["--model.init_args.backbone.init_args.depth=2", "--model.init_args.optimizer.init_args.lr=1"]),
        ("fsdd", []),
    ],
)
def test_the_answer_is_the_one_of_the_parser_that_forgets(name, more):
    plain, often = parsed(LightningArgumentParser, name, *more)
    found, seldom = parsed(Remembering, name, *more)
    assert found == plain
    assert seldom < often


def test_answers_are_copies():
    parser = Remembering(exit_on_error=False)
    parser.add_argument("--sizes", type=list[int])
    first = parser.parse_object({"sizes": [1]})
    first.sizes.append(2)
    assert parser.parse_object({"sizes": [1]}).sizes == [1]


def test_what_differs_has_another_key():
    values = [1, 1.0, True, "1", None, [1], (1,), {"a": 1}, Namespace(a=1), {"a": 1.0}, [[1]], [1, 1]]
    assert len({frozen(value) for value in values}) == len(values)
    with pytest.raises(Unfit):
        frozen([object()])
