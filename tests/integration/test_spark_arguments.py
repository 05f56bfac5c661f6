"""What anybody on a machine can read of the JVM of a worker, which is started with settings of Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from shared_servers import SECRET
from waiting import DEADLINE_S

LETTERS = f"{SECRET}: #\\!=\n\u00fc\U0001f40d."
"""With what a file of properties has a meaning for, and what two units of UTF-16 stand for."""

KEY = "spark.hadoop.fs.s3a.secret.key"
APPLICATION = f"""
import json, pathlib
from airflow_provider.spark.local.application.spark_application import LocalSparkSettings, SparkApplication

conf = {{{KEY!r}: {LETTERS!r}, "spark.driver.memory": "600m"}}
spark = SparkApplication()
running = spark.running_for("me", LocalSparkSettings(master="local[1]", conf=conf))
folder = spark._folder.path
print(json.dumps({{
    "arguments": pathlib.Path("/proc", str(running.jvm.pid), "cmdline").read_text().split("\\0"),
    "secret": running.root.sparkContext._jsc.hadoopConfiguration().get("fs.s3a.secret.key"),
    "default": running.root.conf.get("spark.sql.shuffle.partitions"),
    "modes": [oct(path.stat().st_mode & 0o777) for path in (folder, *folder.glob("*.properties"))],
}}))
spark.release("me")
"""


def test_the_settings_of_a_workers_spark_are_not_among_the_arguments_of_its_jvm(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions 17\nspark.driver.memory 900m\n")
    done = subprocess.run(
        [sys.executable, "-c", APPLICATION],
        env=os.environ | {"SPARK_CONF_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert SECRET not in " ".join(seen["arguments"])
    assert "-Xmx600m" in seen["arguments"], "the launcher has read them, before spark-defaults.conf"
    assert (seen["secret"], seen["default"]) == (LETTERS, "17")
    assert seen["modes"] == ["0o700", "0o600"]
