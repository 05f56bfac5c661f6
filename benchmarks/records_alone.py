"""The peer of ``benchmarks.many``: only the records of its tasks. ``python -m benchmarks.records_alone``.

Four processes write the four records of each task and read all status records, by librdkafka with the settings of a
worker, and do nothing with them. So no worker can take less processor time while each step of a task is stored, told on
the timeline, and read by all.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_provider.kafka.topics.consuming import take_from
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import TaskEvent, TaskState, TaskStatus, TopicNames, task_key
from airflow_provider.values.model import Epoch, TaskId, WorkerId

_ROOT: Final = Path(__file__).parent.parent
_NAMES: Final = TopicNames.of("alone")
_PROCESSES: Final = 4
_TASKS: Final = 5_000
"""Of each process."""
_TASKS_PER_S: Final = 200
"""As many as 20 slots end, with tasks of 0.1 s."""
_LONGEST_S: Final = 120.0

Step = tuple[bytes, bytes, bytes]
"""A key, and the values of a step's two records."""


def run() -> float:
    """Print and return the processor time for each task, in milliseconds."""
    with LocalBroker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        topics = [NewTopic(name, 1, 1) for name in (_NAMES.status, _NAMES.events)]
        for made in admin.create_topics(topics).values():
            made.result()
        program = (sys.executable, "-m", "benchmarks.records_alone", "--be", broker.bootstrap_servers)
        processes = [
            subprocess.Popen([*program, str(number)], cwd=_ROOT, stdout=subprocess.PIPE) for number in range(_PROCESSES)
        ]
        cpu_s = sum(float(process.communicate(timeout=_LONGEST_S)[0]) for process in processes)
    cpu_ms = cpu_s * 1_000 / (_PROCESSES * _TASKS)
    print(f"processor time for each task: {cpu_ms:.2f} ms in {_PROCESSES} processes", flush=True)
    return cpu_ms


def work(servers: str, number: int) -> float:
    """Write and read.

    :returns: the processor time of this process, without what it has prepared
    """
    steps = [step for index in range(_TASKS) for step in _steps_of(TaskId("job", index), WorkerId(f"w{number}"))]
    began_s = time.process_time()
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "compression.type": "gzip",
        }
    )
    read = threading.Event()
    threads = [
        threading.Thread(target=_read_all, args=(servers, read)),
        threading.Thread(target=_poll_until, args=(producer, read)),
    ]
    for thread in threads:
        thread.start()
    _write(producer, steps)
    producer.flush(_LONGEST_S)
    for thread in threads:
        thread.join()
    return time.process_time() - began_s


def _steps_of(task: TaskId, worker: WorkerId) -> list[Step]:
    at_ms, states = int(time.time() * 1_000), (TaskState.RUNNING, TaskState.FINISHED)
    statuses = [
        TaskStatus(task=task, state=state, epoch=Epoch(2), worker=worker, run_key="r", fingerprint=f"{task.index:064}")
        for state in states
    ]
    return [(task_key(task).encode(), *TaskEvent(status=status, at_ms=at_ms).both_encoded()) for status in statuses]


def _write(producer: Producer, steps: list[Step]) -> None:
    began = time.monotonic()
    for number, (key, status, event) in enumerate(steps):
        producer.produce(_NAMES.status, key=key, value=status, partition=0, on_delivery=_ignore)
        producer.produce(_NAMES.events, key=key, value=event, partition=0, on_delivery=_ignore)
        if number % 2:
            time.sleep(max(0.0, began + number / 2 / _TASKS_PER_S - time.monotonic()))


def _ignore(_error: object, _message: object) -> None:
    """That a record is stored, or is not: the reader does not end then."""


def _poll_until(producer: Producer, over: threading.Event) -> None:
    while not over.is_set():
        producer.poll(0.1)


def _read_all(servers: str, read: threading.Event) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "alone",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 200,
            "queued.min.messages": 1,
            "fetch.queue.backoff.ms": 20,
        }
    )
    consumer.assign([TopicPartition(_NAMES.status, 0, 0)])
    left = 2 * _TASKS * _PROCESSES
    while left:
        left -= sum(message.error() is None for message in take_from(consumer, wait_s=0.05, most=10_000))
    consumer.close()
    read.set()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.records_alone", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/bench"), metavar="DIR")
    parser.add_argument("--be", nargs=2, metavar=("BROKERS", "NUMBER"), help="be one of the processes")
    args = parser.parse_args()
    if args.be:
        servers, number = args.be
        print(work(servers, int(number)))
        return
    folder: Path = args.output.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "records_alone.json").write_text(json.dumps({"cpu_ms": run()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
