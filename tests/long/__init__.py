"""The long forms of the reliability tests, as commands, ``python -m tests.long.NAME``: each with a progress bar and a
final table; the exit code is 0 only where every figure is as promised.  pytest runs their short forms."""
