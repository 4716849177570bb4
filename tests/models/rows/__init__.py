"""The rows of the parity test, one file a family: each has a list ``ROWS``."""

import importlib
import pkgutil

ROWS = [
    row
    for module in sorted(found.name for found in pkgutil.iter_modules(__path__))
    for row in importlib.import_module(f"{__name__}.{module}").ROWS
]
