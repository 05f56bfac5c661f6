"""The Spark Connect servers that tests share: one as tests start it, and one as ``cospark spark-connect`` does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Final, NamedTuple

from waiting import DEADLINE_S

from airflow_provider.servers.spark_connect import BINDING_ADDRESS, LocalConnectServer
from airflow_provider.spark.connect.client import require_client
from airflow_provider.spark.connect.server import TOKEN_ENV

SECRET: Final = "hunter2"
MEMORY: Final = "1100m"
_CONF: Final = {
    # On a busy machine a Python worker may need more than 15 s for its imports.
    "spark.python.authenticate.socketTimeout": f"{DEADLINE_S:.0f}s",
    "spark.connect.progress.reportInterval": "100ms",
    "spark.driver.memory": MEMORY,
    "spark.hadoop.fs.s3a.secret.key": SECRET,
    BINDING_ADDRESS: "0.0.0.0",  # which it must not heed
}


@contextmanager
def shared_server() -> Iterator[LocalConnectServer]:
    require_client()
    with LocalConnectServer(conf=_CONF, start_timeout_s=DEADLINE_S) as server:
        yield server


class ServerForTrials(NamedTuple):
    """As the command prints it."""

    url: str
    token: str


@contextmanager
def server_for_trials() -> Iterator[ServerForTrials]:
    require_client()
    env = {name: value for name, value in os.environ.items() if name != TOKEN_ENV}
    command = [sys.executable, "-m", "airflow_provider.cli.main", "spark-connect"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as started:
        assert started.stdout is not None
        try:
            printed = "".join(takewhile(lambda line: line != "For Airflow:\n", started.stdout))
            url = re.search(r"--spark-master (\S+)", printed)
            token = re.search(rf"export {TOKEN_ENV}=(\S+)", printed)
            assert url is not None, printed
            assert token is not None, printed
            yield ServerForTrials(url[1], token[1])
        finally:
            started.send_signal(signal.SIGTERM)
            assert started.wait(DEADLINE_S) == 0
