"""Which code a config or a checkpoint may name: our parts, Lightning's, torch's, timm's, and what the user trusts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zoo import EXPORTS

OPEN = {  # module -> may what it defines be named?  The longest that fits decides.
    **dict.fromkeys(
        (
            *(f"lightning.pytorch.{part}" for part in ("accelerators", "callbacks", "loggers", "plugins")),
            *(f"lightning.pytorch.{part}" for part in ("profilers", "strategies")),
            *(f"lightning.fabric.{part}" for part in ("accelerators", "loggers", "plugins")),  # where some are defined
            *("lightning.Callback", "lightning.LightningDataModule"),  # the parser names slots themselves, too
            *("lightning.pytorch.core.datamodule.LightningDataModule", "torch.device"),
            *("torch.distributed.fsdp", "torch.nn", "torch.optim", "torchvision.transforms"),
            *("timm.data", "timm.layers", "timm.optim", "timm.scheduler"),
        ),
        True,
    ),
    **dict.fromkeys(
        (  # functions that read files or gather processes
            *("torch.nn.parallel", "torch.nn.utils", "torch.nn.cpp"),
            *(
                f"timm.data.{part}"
                for part in ("dataset", "dataset_factory", "dataset_info", "imagenet_info", "readers")
            ),
            *("timm.data.loader", "timm.data.tf_preprocessing"),
        ),
        False,
    ),
}
INSTANTIATOR = "lightning.pytorch.cli.instantiate_module"  # the only one that our checkpoints name

_trusted: set[str] = set()


def allow(*names: str) -> None:
    """Lets configs and checkpoints name what is in these packages, modules or classes, for as long as this process
    runs.  Raises ValueError for what is no such name."""
    for name in names:
        if not all(word.isidentifier() for word in name.split(".")) or name.split(".")[0] == "jsonargparse":
            raise ValueError(f"{name!r} is no package that can be allowed: give its name as it is imported")
    _trusted.update(names)


def forget() -> None:
    """Trust nothing but what is trusted at the start."""
    _trusted.clear()


def trusted() -> list[str]:
    """What ``allow`` was given."""
    return sorted(_trusted)


def allows(path: str) -> bool:
    """May a config name this class or function?  Nothing is imported to find out."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        above = ".".join(parts[:end])
        if above in _trusted:
            return True
        if above in OPEN:
            return OPEN[above]
    return parts[0] == "zoo" and any(
        parts[-1] in names and (len(parts) == 2 or path.startswith(f"{module}.")) for module, names in EXPORTS.items()
    )


def refusal(path: str) -> str:
    """What to tell about a name that is not allowed."""
    package = path.partition(".")[0]
    return f"{path} is not among the classes that a config may name; if you trust it: --allow {package}"


def refuse_foreign(kept: Any, source: str) -> None:
    """Raises ValueError, which begins with ``source``, where the hyper-parameters of a checkpoint name other code."""
    for key, path in named(kept):
        known = path == INSTANTIATOR if key == "_instantiator" else allows(path)
        if "." in path and not known:
            raise ValueError(f"{source}: {refusal(path)}")


def named(value: Any) -> Iterator[tuple[str, str]]:
    """The keys that name classes, at any depth, with what they say."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("class_path", "_class_path", "_instantiator"):
                yield key, str(item)
            yield from named(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from named(item)
