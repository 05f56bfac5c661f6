"""The records of a group's three topics: ``<group>.jobs``, ``<group>.status``, ``<group>.events``.

Pure: values, keys and bytes. :mod:`airflow_provider.state.views` works out what a sequence of records amounts to.
"""

from airflow_provider.state.records.envelope import UnreadableRecordError, decode, encode
from airflow_provider.state.records.events import ActionEvent, Event, RebalanceEvent, TaskEvent, event_from_json
from airflow_provider.state.records.jobs_topic.checks import JobError
from airflow_provider.state.records.jobs_topic.control import ControlAction, ControlRecord
from airflow_provider.state.records.jobs_topic.jobs import JobDefinition, TaskKind
from airflow_provider.state.records.jobs_topic.log_levels import ALL_WORKERS, LevelsRecord, LogLevel
from airflow_provider.state.records.jobs_topic.plans import PlanRecord, TaskWork
from airflow_provider.state.records.jobs_topic.removal import REMOVED, Removal
from airflow_provider.state.records.jobs_topic.slots import SLOTS_KEY
from airflow_provider.state.records.jobs_topic.steering import (
    Halt,
    HaltRecord,
    RebalanceRecord,
    RestartRecord,
    TaskHaltRecord,
)
from airflow_provider.state.records.jobs_topic.task_names import CHECKPOINT_KEY, WEIGHT, task_name
from airflow_provider.state.records.keys import (
    GROUP_KEY,
    REBALANCE_KEY,
    Key,
    KeyKind,
    TopicNames,
    control_key,
    halt_key,
    halt_task_key,
    job_key,
    levels_key,
    parse_key,
    plan_key,
    restart_key,
    task_key,
    worker_key,
)
from airflow_provider.state.records.status_topic.costs import UNKNOWN_COST, cost_of
from airflow_provider.state.records.status_topic.spark_work import SparkWork
from airflow_provider.state.records.status_topic.stream_progress import StreamProgress
from airflow_provider.state.records.status_topic.task_failure import TaskFailure
from airflow_provider.state.records.status_topic.task_status import (
    MOST_FAILED_ON,
    CheckpointClaim,
    TaskState,
    TaskStatus,
    is_driver,
)
from airflow_provider.state.records.status_topic.worker_status import (
    FailedWarmUp,
    Lesson,
    WarmUpDeaths,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.state.records.status_topic.written import WrittenAsset
