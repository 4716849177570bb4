"""timm's models as a source: their settings in the form of a config.json, and their weights."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import torch

from zoo.files import Weights, first_line, read_weights
from zoo.models.timm import package, settings

SCHEME = "timm:"


def read(name: str, weights: str | None = None) -> tuple[None, dict[str, Any], Weights]:
    """A model of timm by its name, downloaded, or from the file ``weights``.

    Raises ImportError without timm, ValueError for an unknown name or a model that is no ViT of ours, OSError where the
    download fails.
    """
    timm = package(name)
    known = timm.list_models(pretrained=not weights)
    plain = name.partition(".")[0] if weights else name  # what follows the dot names published weights
    if plain not in known and not any(other.startswith(plain + ".") for other in known):
        near = difflib.get_close_matches(plain, known, n=3, cutoff=0.3)
        raise ValueError(f"timm has no pretrained model {name!r}; the nearest names are {', '.join(near)}")
    if weights:
        with torch.device("meta"):
            return None, settings(timm.create_model(name)), read_weights(Path(weights))
    try:
        model = timm.create_model(name, pretrained=True)
    except Exception as error:  # whatever the hub's client raises without a network
        raise OSError(
            f"timm:{name} could not be downloaded ({first_line(error)}); give a file of its weights instead"
        ) from None
    state = model.state_dict()
    return None, settings(model), Weights(state, dict.fromkeys(state, Path(SCHEME + name)))
