"""What the operator of this machine has set for all Spark applications on it: ``spark-defaults.conf``."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import Final

_SETTING: Final = re.compile(r"\s*([^\s=:#!][^\s=:]*)[\s=:]*(.*?)\s*")


def spark_defaults(home: Path | None = None) -> dict[str, str]:
    """The settings in that file, where Spark looks for it; none if there is no file. Does not import PySpark.

    :param home: the folder of Spark; None: that of the environment, or of PySpark
    """
    folder = os.environ.get("SPARK_CONF_DIR") or str(Path(home or _home(), "conf"))
    file = Path(folder, "spark-defaults.conf")
    return settings_in(file.read_bytes()) if file.is_file() else {}


def settings_in(properties: bytes) -> dict[str, str]:
    """The settings in a file of that form."""
    lines = properties.decode(errors="replace").splitlines()
    return {found[1]: found[2] for found in map(_SETTING.fullmatch, lines) if found}


def _home() -> Path:
    if os.environ.get("SPARK_HOME"):
        return Path(os.environ["SPARK_HOME"])
    spec = importlib.util.find_spec("pyspark")
    return Path() if spec is None or spec.origin is None else Path(spec.origin).parent
