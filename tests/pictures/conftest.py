"""The small trainer of the tasks' tests."""

from tests.tasks.conftest import trainer  # noqa: F401
