"""Many short tasks that run once and undisturbed: how far from ideal is the time in which the group finishes them?

The runner is ``noop``, so that only the cost of the group is measured. Printed for each load: the time until the last
task has finished, and what it would be if all slots were always busy; the processor time of the workers' processes per
task; status records per task; rounds.

Each worker reads all records. So with many workers on one machine each record is read many times, and the loads differ
in that.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import TopicNames, decode
from benchmarks.overload import Load, records_of, submit

_ROOT: Final = Path(__file__).parent.parent
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PROGRAM: Final = ("-m", "airflow_provider.cli.main")

LOADS: Final = {
    "spread": Load(tasks=2_000, workers=20, slots=4, task_s=0.5),
    "one-2000": Load(tasks=2_000, workers=1, slots=20, task_s=0.02),
    "one-20000": Load(tasks=20_000, workers=1, slots=20, task_s=0.02),
    "dense": Load(tasks=20_000, workers=4, slots=20, task_s=0.1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The results of a load.

    :param makespan_s: from the submission of the job to the end of its last task
    :param ideal_s: the same if all slots were always busy
    :param busy: the share of the slots' time until then in which a task ran
    :param cpu_ms: processor time of all workers' processes per task
    :param broker_cpu_ms: the same for the broker
    :param written: status records, by what they say
    """

    makespan_s: float
    ideal_s: float
    busy: float
    cpu_ms: float
    broker_cpu_ms: float
    written: dict[str, int]
    rounds: int


def run(folder: Path, names: tuple[str, ...] = tuple(LOADS)) -> dict[str, Any]:
    """Measure, print, and return the figures."""
    figures = {}
    for name in names:
        figures[name] = _measure(LOADS[name], folder)
        _show(LOADS[name], figures[name])
    return {name: asdict(measured) for name, measured in figures.items()}


def _measure(load: Load, folder: Path) -> Figures:
    with LocalBroker() as broker, ExitStack() as ending:
        settings = KafkaSettings.from_extra({"bootstrap.servers": broker.bootstrap_servers}, conn_id="benchmark")
        workers = [_worker(settings, load, folder / f"w{number}.log", ending) for number in range(load.workers)]
        job = asyncio.run(submit(settings, load))
        before_s, broker_before_s = sum(_cpu_s(worker.pid) for worker in workers), _cpu_s(broker.pid or 0)
        after_s = sum(_cpu_s_at_end(worker) for worker in workers)
        broker_after_s = _cpu_s(broker.pid or 0)
        return _figures(
            settings,
            load,
            job,
            cpu_ms=(after_s - before_s) * 1000 / load.tasks,
            broker_cpu_ms=(broker_after_s - broker_before_s) * 1000 / load.tasks,
        )


def _worker(settings: KafkaSettings, load: Load, log: Path, ending: ExitStack) -> subprocess.Popen[bytes]:
    output = ending.enter_context(log.open("wb"))
    program = (sys.executable, *_PROGRAM, "worker", "overload", "--worker", log.stem, "--runner", "noop")
    how = ("--slots", str(load.slots), "--until", "drained", "--bootstrap-servers", settings.bootstrap_servers)
    process = subprocess.Popen([*program, *how], cwd=_ROOT, stdout=output, stderr=output)
    ending.callback(process.kill)
    return process


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _cpu_s_at_end(worker: subprocess.Popen[bytes]) -> float:
    _, status, usage = os.wait4(worker.pid, 0)
    worker.returncode = os.waitstatus_to_exitcode(status)
    assert worker.returncode == 0, f"a worker ended with {worker.returncode}; see its log"
    return usage.ru_utime + usage.ru_stime


def _figures(settings: KafkaSettings, load: Load, submitted_ms: int, *, cpu_ms: float, broker_cpu_ms: float) -> Figures:
    written: Counter[str] = Counter()
    ran_ms, last_ms, finished = 0, 0, set()
    for key, value, at_ms in records_of(settings, TopicNames.of("overload").status):
        if at_ms < submitted_ms or value is None:
            continue
        kind, record = key.partition(":")[0], decode(value)
        written[record["state"] if kind == "task" else kind] += 1
        if kind == "task" and record["state"] == "finished" and record["task"][1] >= 0:
            finished.add(record["task"][1])
            ran_ms += record["finished_at_ms"] - record["started_at_ms"]
            last_ms = max(last_ms, record["finished_at_ms"])
    assert len(finished) == load.tasks, f"{len(finished)} of {load.tasks} tasks finished"
    slots = load.workers * load.slots
    makespan_s = (last_ms - submitted_ms) / 1000
    return Figures(
        makespan_s=makespan_s,
        ideal_s=-(-load.tasks // slots) * load.task_s,
        busy=ran_ms / 1000 / slots / makespan_s,
        cpu_ms=cpu_ms,
        broker_cpu_ms=broker_cpu_ms,
        written=dict(written),
        rounds=written["group"],
    )


def _show(load: Load, figures: Figures) -> None:
    records = sum(figures.written.values())
    print(
        f"\n{load.tasks:,} tasks of {load.task_s:g} s on {load.workers} workers of {load.slots} slots,"
        f" {os.cpu_count()} cores:\n"
        f"  {figures.makespan_s:.1f} s, ideal {figures.ideal_s:.1f} s: {figures.makespan_s / figures.ideal_s:.2f};"
        f" slots busy {figures.busy:.0%}; {load.tasks / figures.makespan_s:.0f} ends/s\n"
        f"  processor time for each task: {figures.cpu_ms:.2f} ms in all workers, {figures.broker_cpu_ms:.2f} ms in"
        " the broker\n"
        f"  status records for each task: {records / load.tasks:.2f}"
        f" ({', '.join(f'{count:,} {what}' for what, count in sorted(figures.written.items()))})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="LOAD", help=f"of {', '.join(LOADS)} (default: all)")
    parser.add_argument("--output", type=Path, default=Path("build/bench"), metavar="DIR")
    args = parser.parse_args()
    folder: Path = args.output.absolute() / "many"
    folder.mkdir(parents=True, exist_ok=True)
    figures = run(folder, tuple(args.names) or tuple(LOADS))
    (folder.parent / "many.json").write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
