"""Jobs whose tasks say the worst that code can say."""

from __future__ import annotations

import random
from typing import Any

from job_values import BAD, said_by

from airflow_provider.spark.job import SparkJob


class Says(SparkJob):
    """Each task returns a value, of which some are refused, or fails with a text."""

    def plan(self, job: Any) -> list[dict[str, Any]]:
        return [{"seed": seed, "name": f"{seed} {BAD[:3]}"} for seed in range(job.max_tasks)]

    def run(self, spark: Any, task: Any) -> Any:
        value, error = said_by(task.config["seed"])
        if error is not None:
            raise ValueError(error)
        return value


class Writes(SparkJob):
    """Each task writes an asset of such a name, and returns that."""

    def plan(self, job: Any) -> list[dict[str, Any]]:
        return [{"seed": seed} for seed in range(job.max_tasks)]

    def run(self, spark: Any, task: Any) -> str:
        name = asset_name(task.config["seed"])
        task.wrote(name, 7, uri=f"s3://lake/{name}")
        return name


def asset_name(seed: int) -> str:
    """Topics take no surrogates."""
    letters = [chr(code) for code in (0, 1, 7, 27, 0x7F, 0x41, 0x61)]
    return f"x\0y {seed} " + "".join(random.Random(seed).choices(letters, k=seed % 20))
