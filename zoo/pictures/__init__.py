"""Pictures of what a model does; drawing them, which needs matplotlib, is in ``zoo.pictures.draw``."""

from zoo.pictures.sheet import Column, Confusion, Picture, Sheet, Weights

__all__ = ["Column", "Confusion", "Picture", "Sheet", "Weights"]
