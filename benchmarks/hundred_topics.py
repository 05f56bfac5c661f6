"""A hundred topics into a hundred Iceberg tables, with kills and a new topic: what arrives, how fast, and how late?
``python -m benchmarks hundred_topics``, after ``make lake``.

A real broker, a real Spark with its Kafka source, and real Iceberg tables. ``TOPICS`` topics (in the environment) get
numbered rows at a steady rate, and have some before. The job :class:`~airflow_provider.jobs.KafkaToTable` copies each
into a table (``FORM``): by two workers (``attached``), of which one is killed, and detached on a Spark Connect server
(``connect``), where a worker and the server are killed. What was killed is started again, as by a supervisor. Then
there is a new topic, which the job finds when it is planned again. In the end, all tables are read.

The peer, in the same run, is a plain Spark script with the same settings: one session, and one query for each topic.
Nobody kills it. For a new topic it is started again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.topics.parts import NoLakeError, environment


def run(folder: Path) -> dict[str, Any]:
    """Measure in a process that imports another PySpark than this one, and return the figures."""
    folder = folder / f"{time.time():.0f}"
    folder.mkdir(parents=True)
    output = folder / "figures.json"
    try:
        env = environment()
    except NoLakeError as lacking:
        raise SystemExit(str(lacking)) from lacking
    subprocess.run([sys.executable, "-m", "benchmarks.topics.measure", str(folder), str(output)], env=env, check=True)
    figures: dict[str, Any] = json.loads(output.read_text())
    return figures
