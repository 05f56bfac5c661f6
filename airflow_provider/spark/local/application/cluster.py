"""What is different if a worker's Spark has its executors on other machines."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark import SparkConf

log = logging.getLogger(__name__)

_CORES: Final = "spark.cores.max"
_DYNAMIC: Final = "spark.dynamicAllocation.enabled"


def is_local(master: str) -> bool:
    """Whether the executors are on this machine, and use its import path."""
    return master.startswith("local")


def warn_of_unlimited_cores(master: str, conf: SparkConf) -> None:
    """Warn if the application may take all cores. A standalone master gives them all to the first application that
    asks, and the next ones wait without a message. With dynamic allocation, an application gives back what it does not
    need.

    :param conf: the settings of the application, including those of ``spark-defaults.conf``
    """
    if master.startswith("spark://") and not conf.contains(_CORES) and conf.get(_DYNAMIC, "false") != "true":
        log.warning(
            "%s is not set: this worker may take all cores of %s, and the others' tasks then wait for it to end."
            " Give each worker its share, for example spark_conf={%r: '4'}",
            _CORES,
            master,
            _CORES,
        )
