"""timm's models as a source: their settings in the form of a config.json, and their weights."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from zoo.hub.files import Weights, first_line, read_weights

SCHEME = "timm:"


def read(name: str, weights: str | None = None) -> tuple[None, dict[str, Any], Weights]:
    """A model of timm by its name, downloaded, or from the file ``weights``.

    Raises ImportError without timm, ValueError for an unknown name, OSError where the download fails.
    """
    try:
        import timm
    except ImportError:
        raise ImportError(f"timm:{name} needs the timm package: pip install timm") from None
    known = timm.list_models(pretrained=not weights)
    if name not in known and not any(other.startswith(name + ".") for other in known):
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.3)
        raise ValueError(f"timm has no pretrained model {name!r}; the nearest names are {', '.join(near)}")
    try:
        model = timm.create_model(name, pretrained=not weights)
    except Exception as error:  # whatever the hub's client raises without a network
        raise OSError(
            f"timm:{name} could not be downloaded ({first_line(error)}); give a file of its weights instead"
        ) from None
    state = {} if weights else model.state_dict()
    found = read_weights(Path(weights)) if weights else Weights(state, dict.fromkeys(state, Path(SCHEME + name)))
    return None, settings(model), found


def settings(model: Any) -> dict[str, Any]:
    """What a VisionTransformer of timm is made of, as its family's table of keys asks for it."""
    raise NotImplementedError
