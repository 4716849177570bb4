"""Published weights: read from timm or from a file, and put into a task for fine-tuning."""

import difflib
import logging
import math
from pathlib import Path

import safetensors
import torch
from safetensors.torch import load_file
from torch import nn

from zoo.convert import State
from zoo.models.vit import TIMM
from zoo.nn import Learned2d, resize_grid

log = logging.getLogger(__name__)

TABLE = "backbone.position.weight"


def load_weights(task: nn.Module, source: str) -> list[str]:
    """Fill ``task`` (its modules ``embed``, ``pool``, ``backbone`` and ``head``) with the weights of a ViT.

    ``source`` is a file in timm's naming (.safetensors, or .pth, .pt, .bin), or "timm:" and a model's name, such as
    "timm:vit_tiny_patch16_224.augreg_in21k_ft_in1k", which is downloaded.  A position table of another grid is resized
    (Dosovitskiy et al. 2020, section 3.2); a head for other classes stays as it is.  What was done beside copying is
    logged, and returned as sentences.  Nothing is written unless everything fits.

    Raises ValueError where a file cannot be read, a name is unknown, or a tensor is missing, too many or of another
    shape; OSError where the download fails; ImportError without timm.
    """
    theirs = _from_timm(source.removeprefix("timm:")) if source.startswith("timm:") else _from_file(source)
    expected = task.state_dict()
    try:
        ours = TIMM.load(theirs)
        notes = [*_choose_head(ours, expected), *_resize_positions(ours, task)]
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None
    _check(ours, expected, source)
    task.load_state_dict(ours, strict=False)
    notes = [f"{source}: {note}" for note in notes]
    for note in notes:
        log.warning(note)
    return notes


def _choose_head(ours: State, expected: State) -> list[str]:
    """Drop a head that does not fit."""
    given = {name: ours[name].shape for name in list(ours) if name.startswith("head.")}
    wanted = {name: expected[name].shape for name in expected if name.startswith("head.")}
    if given == wanted:
        return []
    for name in given:
        del ours[name]
    if not wanted:
        return ["its head is left out, for the task has none"]
    theirs, here = (shapes.get("head.bias", [0])[0] for shapes in (given, wanted))
    return [f"its head has {theirs or 'no'} classes and the task's {here or 'other outputs'}, so the task's stays new"]


def _resize_positions(ours: State, task: nn.Module) -> list[str]:
    """Fit a position table to the task's grid."""
    position = task.backbone.position
    if not isinstance(position, Learned2d) or TABLE not in ours:
        return []
    weight, prefix, new = ours[TABLE], position.prefix, (position.height, position.width)
    cells = len(weight) - prefix
    if weight.dim() != 2 or weight.shape == position.weight.shape:
        return []
    side = math.isqrt(max(cells, 0))
    if cells < 1 or side * side != cells:
        raise ValueError(
            f"the position table 'pos_embed' has {len(weight)} rows, not {prefix} class tokens and a square grid"
        )
    ours[TABLE] = resize_grid(weight, (side, side), new, prefix)
    return [f"its position table of {side} x {side} cells is resized to {new[0]} x {new[1]}"]


def _check(ours: State, expected: State, source: str) -> None:
    """Every tensor has a place, every place of the table a tensor, and the shapes agree."""
    for name, value in ours.items():
        theirs = TIMM.published(name)
        if name not in expected:
            raise ValueError(f"{source}: the tensor {theirs!r} has no place, the task has no {name!r}")
        if value.shape != expected[name].shape:
            found, wanted = tuple(value.shape), tuple(expected[name].shape)
            raise ValueError(f"{source}: the tensor {theirs!r} makes {name!r} of shape {found}, the task's is {wanted}")
    for name in expected:
        theirs = TIMM.published(name)
        if name not in ours and not name.startswith("head.") and (theirs or name.startswith("backbone.")):
            what = f"has no tensor {theirs!r}" if theirs else "cannot have such a tensor"
            raise ValueError(f"{source}: the task needs {name!r}, but the checkpoint {what}")


def _from_file(source: str) -> State:
    path = Path(source)
    if not path.is_file():
        raise ValueError(f"no file {source!r}; a model of timm is written 'timm:' and its name")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except safetensors.SafetensorError as error:
        raise ValueError(f"{source} is no whole safetensors file ({_first_line(error)})") from None
    except Exception as error:  # torch.load has no error of its own
        raise ValueError(f"{source} is no whole checkpoint of plain tensors ({_first_line(error)})") from None
    for wrapper in ("model", "state_dict"):
        if isinstance(state, dict) and isinstance(state.get(wrapper), dict):
            state = state[wrapper]
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise ValueError(f"{source} holds no dictionary of tensors")
    return state


def _from_timm(name: str) -> State:
    try:
        import timm
    except ImportError:
        raise ImportError(f"timm:{name} needs the timm package; pip install timm, or give a local file") from None
    known = timm.list_models(pretrained=True)
    if name not in known and not any(other.startswith(name + ".") for other in known):
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.3)
        raise ValueError(f"timm has no pretrained model {name!r}; the nearest names are {', '.join(near)}")
    try:
        return timm.create_model(name, pretrained=True).state_dict()
    except Exception as error:  # whatever the hub's client raises without a network
        reason = _first_line(error)
        raise OSError(f"timm:{name} could not be downloaded ({reason}); give a local file instead") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
