"""The command line: ``python -m zoo``."""
