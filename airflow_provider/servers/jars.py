"""Jars from Maven coordinates, for a local broker and for tests against Kafka's own classes.

Nobody installs Kafka for this. PySpark carries Ivy, the resolver of ``spark-submit --packages``, and needs a Java
itself: so who can run PySpark can have any jar that is published under Maven coordinates. What arrives is only used
if its checksum is known.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from airflow_provider.servers.java import MissingPrerequisiteError, find_java

_DOWNLOAD_TIMEOUT_S: Final = 900
_OUTPUT_LINES_SHOWN: Final = 15

KNOWN: Final = Path(__file__).with_name("jars.sha256")
"""The checksums of the broker's jars, as ``sha256sum`` writes them."""

Report = Callable[[str], None]


class JarsUnavailableError(RuntimeError):
    """Ivy could not fetch the jars; the message carries the end of what it printed. Or they are not the known ones."""


def default_cache() -> Path:
    """The folder for whatever is fetched once: ``$COSPARK_CACHE``, else ``~/.cache/cospark``."""
    configured = os.environ.get("COSPARK_CACHE")
    return Path(configured).expanduser().absolute() if configured else Path.home() / ".cache" / "cospark"


def fetch_jars(*coordinates: str, cache: Path, known: Path = KNOWN, report: Report | None = None) -> tuple[Path, ...]:
    """The jars of these Maven coordinates with all they depend on, and the Scala library that PySpark has anyway.

    The first call fetches them into ``cache``; later ones, in any process, need neither network nor Java.

    :param coordinates: as ``group:artifact:version``
    :param cache: shared by any number of processes; one fetches, the others wait for it
    :param known: the file with the checksums of all these jars
    :param report: called with a line of progress while something is fetched; prints to stderr by default
    :raises MissingPrerequisiteError: PySpark or Java is not there
    :raises JarsUnavailableError: the jars could not be fetched, or one has another checksum, or none that is known
    """
    pyspark = pyspark_home()
    target = cache / "jars" / hashlib.sha256("\n".join(sorted(coordinates)).encode()).hexdigest()[:16]
    if not target.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / "lock"):
            if not target.is_dir():
                _fetch(coordinates, cache, target, known, pyspark, report or _print_progress)
    # Ivy as Spark runs it leaves out the Scala library, because Spark has one.
    return (*sorted(target.glob("*.jar")), *sorted((pyspark / "jars").glob("scala-library-*.jar")))


def _fetch(coordinates: tuple[str, ...], cache: Path, target: Path, known: Path, pyspark: Path, report: Report) -> None:
    find_java()
    report(f"fetching {', '.join(coordinates)} into {cache} (once)")
    ivy = cache / "ivy"
    # What an interrupted run left here would be taken for a part of this one.
    shutil.rmtree(ivy / "jars", ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="cospark-ivy-") as folder:
        # spark-submit resolves packages only on the way to running something.
        nothing = Path(folder) / "nothing.py"
        nothing.write_text("")
        command = [
            str(pyspark / "bin" / "spark-submit"),
            *("--master", "local[1]", "--packages", ",".join(coordinates)),
            *("--conf", f"spark.jars.ivy={ivy}", str(nothing)),
        ]
        environment = os.environ | {"SPARK_HOME": str(pyspark), "PYSPARK_PYTHON": sys.executable}
        environment.pop("PYSPARK_DRIVER_PYTHON", None)
        status, output = _run_reporting(command, environment, report)
    if status != 0 or not any((ivy / "jars").glob("*.jar")):
        raise JarsUnavailableError(
            f"could not fetch {', '.join(coordinates)} (spark-submit ended with status {status}). Is there a network? "
            "A mirror can be named by spark.jars.ivySettings in spark-defaults.conf. Its last words:\n"
            + "\n".join(output[-_OUTPUT_LINES_SHOWN:])
        )
    strange = _strange(ivy / "jars", known)
    if strange:
        shutil.rmtree(ivy)  # with Ivy's own copies, so that the next try fetches them again
        raise JarsUnavailableError(
            f"these jars of {', '.join(coordinates)} have a checksum that is not in {known}, so they are not used:\n"
            + "\n".join(strange)
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    (ivy / "jars").replace(target)  # whole or not at all: the folder is its own mark of completeness
    report(f"fetched {len(list(target.glob('*.jar')))} jars")


def _strange(folder: Path, known: Path) -> list[str]:
    """The jars whose checksums are not known, as lines of such a file."""
    lines = (f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.name}" for jar in sorted(folder.glob("*.jar")))
    return sorted(set(lines).difference(known.read_text().splitlines()))


def _run_reporting(command: list[str], environment: dict[str, str], report: Report) -> tuple[int, list[str]]:
    """Run Ivy, not for ever; report each tenth jar as it arrives."""
    output: list[str] = []
    arrived = 0
    with subprocess.Popen(  # noqa: S603  (PySpark's own script, our own arguments)
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        limit = threading.Timer(_DOWNLOAD_TIMEOUT_S, process.kill)  # a network that swallows packets: no line comes
        limit.start()
        try:
            for line in process.stdout or ():
                output.append(line.rstrip())
                if "[SUCCESSFUL ]" in line:
                    arrived += 1
                    if arrived % 10 == 0:
                        report(f"  {arrived} jars")
            return process.wait(), output
        except BaseException:
            process.kill()
            raise
        finally:
            limit.cancel()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold ``path`` against other processes; the lock ends with its holder, however that ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def pyspark_home() -> Path:
    """The folder of a PySpark that has a Spark in it.

    :raises MissingPrerequisiteError: there is none
    """
    # Asked of the import system rather than imported: importing PySpark takes longer than starting the broker.
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingPrerequisiteError("PySpark with Spark in it is needed: pip install 'pyspark>=4,<5'")
    home = Path(spec.origin).parent
    if not (home / "bin" / "spark-submit").is_file():
        raise MissingPrerequisiteError(
            f"{home} is not a whole PySpark (bin/spark-submit is missing; is pyspark-client installed over it?): "
            "pip install --force-reinstall 'pyspark>=4,<5'"
        )
    return home


def _print_progress(line: str) -> None:
    print(f"cospark: {line}", file=sys.stderr, flush=True)
