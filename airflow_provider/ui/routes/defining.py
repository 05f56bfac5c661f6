"""The routes of the forms that submit and alter jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, HTTPException, Query, status

from airflow_provider.integration import one_shot
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.state.operations.operations import AlterJob
from airflow_provider.state.records import JobDefinition, TaskKind
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.ui.access.rights import may_define, may_see_configs
from airflow_provider.ui.access.visits import Visit
from airflow_provider.ui.routes.audited_action import Done, done, steer
from airflow_provider.ui.views.config_form import Declared, declared_by

router: Final = APIRouter(prefix="/api")

Defining = Annotated[Visit, Depends(may_define)]
Seeing = Annotated[Visit, Depends(may_see_configs)]
Id = Annotated[str, Query(min_length=1, max_length=500)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitJob:
    """A job from the form; the other fields have their defaults."""

    conn: str
    group: str
    job: str
    entry_point: str
    config: dict[str, Any] = field(default_factory=dict)
    max_tasks: int | None = None
    kind: TaskKind = TaskKind.BATCH
    retries: int | None = None
    run_key: str = ""
    session_conf: dict[str, Any] = field(default_factory=dict)

    def noted(self) -> dict[str, object]:
        named = _named(self.conn, self.group, self.job, self.config, self.session_conf)
        return {**named, "entry_point": self.entry_point}

    def definition(self, by: str) -> JobDefinition:
        """:raises JobError: if it is not acceptable"""
        return JobDefinition(
            name=self.job,
            entry_point=self.entry_point,
            config=self.config,
            max_tasks=self.max_tasks,
            kind=self.kind,
            retries=self.retries,
            run_key=self.run_key,
            session_conf=self.session_conf,
            submitted_at_ms=wall_ms(),
            submitted_by=by,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeJob:
    """Changes of a job from the form.

    :param defined_at: the offset of the definition with which the form was filled
    :param config: changes by key; None removes a key
    :param session_conf: likewise
    """

    conn: str
    group: str
    job: str
    defined_at: int
    config: dict[str, Any] = field(default_factory=dict)
    max_tasks: int | None = None
    retries: int | None = None
    session_conf: dict[str, Any] = field(default_factory=dict)

    def noted(self) -> dict[str, object]:
        named = _named(self.conn, self.group, self.job, self.config, self.session_conf)
        return {**named, "defined_at": self.defined_at, "max_tasks": self.max_tasks}

    @property
    def operation(self) -> AlterJob:
        settings = {"max_tasks": self.max_tasks, "retries": self.retries}
        given = {name: value for name, value in settings.items() if value is not None}
        return AlterJob(
            job=self.job,
            defined_at=self.defined_at,
            config=self.config,
            session_conf=self.session_conf,
            settings=given,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobForm:
    """What the form to alter a job shows.

    :param defined_at: the offset of the definition
    """

    defined_at: int
    config: Mapping[str, Any]
    max_tasks: int | None
    retries: int | None
    session_conf: Mapping[str, str]
    declared: Declared


@router.get("/declared")
def declared(visit: Seeing, conn: Id, group: Id, entry_point: Id) -> Declared:
    """The config that a job to submit declares."""
    watched = visit.group(conn, group)
    return declared_by(entry_point, watched.seen().jobs if watched else JobsSnapshot())


@router.get("/definition")
def definition(visit: Seeing, conn: Id, group: Id, job: Id) -> JobForm:
    """The definition of a job. Only users who may alter it may see it: its config may contain secrets."""
    watched = visit.group(conn, group)
    jobs = watched.seen().jobs if watched else None
    known = None if jobs is None else jobs.jobs.get(job)
    if jobs is None or known is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"the group has no job {job!r} now")
    return JobForm(
        defined_at=jobs.defined_at[job],
        config=known.config,
        max_tasks=known.max_tasks,
        retries=known.retries,
        session_conf=known.session_conf,
        declared=declared_by(known.entry_point, jobs),
    )


@router.post("/act/submit")
def submit_job(act: SubmitJob, visit: Defining) -> Done:
    def submit(settings: KafkaSettings) -> str:
        submission = one_shot.submit_job(settings, act.group, act.definition(visit.by))
        return "; ".join(submission.lines())

    return done("submit", act, visit, submit)


@router.post("/act/alter")
def alter_job(act: ChangeJob, visit: Defining) -> Done:
    return steer("alter", act, visit, act.operation)


def _named(
    conn: str, group: str, job: str, config: Mapping[str, Any], session_conf: Mapping[str, Any]
) -> dict[str, object]:
    """What the audit log gets: the keys of the config and of the settings without the values, which may be secret."""
    return {"conn": conn, "group": group, "job": job, "config": sorted(config), "session_conf": sorted(session_conf)}
