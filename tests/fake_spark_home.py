"""A folder that looks like Spark, with a stand-in for ``spark-submit``: it runs applications as programs of the shell,
whatever they are called. They find the properties that it was given in ``$PROPERTIES``, and the class in ``$CLASS``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_SUBMIT: Final = """\
#!/bin/sh
while :; do
  case "$1" in
    --load-spark-defaults) shift ;;
    --properties-file) PROPERTIES=$2; shift 2 ;;
    --class) CLASS=$2; shift 2 ;;
    -*) echo "no such option: $1"; exit 2 ;;
    *) break ;;
  esac
done
export PROPERTIES CLASS
exec /bin/sh "$@"
"""


def make_spark_home(folder: Path) -> Path:
    submit = folder / "spark" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text(_SUBMIT)
    submit.chmod(0o755)
    return folder / "spark"


def write_application(file: Path, program: str) -> str:
    """:param program: of the shell"""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(program)
    return str(file)
