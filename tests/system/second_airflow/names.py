"""Names that the tests of the second Airflow share."""

from __future__ import annotations

from typing import Final

USER: Final = "airflow"
SECRET_GROUP: Final = "secret"
"""The group of the DAGs that have a password."""
TRIED: Final = "tried"
"""The group of the command line."""
EXAMPLES: Final = "example"
"""The prefix of the examples' groups."""
