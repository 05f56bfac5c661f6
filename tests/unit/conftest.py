"""Unit tests import Airflow, which writes into its home at once: it shall not be the user's."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

if "AIRFLOW_HOME" not in os.environ:
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="cospark-airflow-")
    atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)
