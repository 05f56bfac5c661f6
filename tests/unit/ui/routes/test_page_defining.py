"""Jobs are submitted and altered on the page: by which form, by whom, and what of it is written down."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from typing import Any

import pytest
from airflow_values import job, jobs_snapshot
from page_bench import Page, StillTopics, make_page

from airflow_provider.integration import one_shot
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.topic_writer import Submission
from airflow_provider.state.operations.operations import AlterJob, Operation, Outcome
from airflow_provider.state.records import JobDefinition, PlanRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.ui.access.rights import ACTING_HEADER
from airflow_provider.ui.views.config_form import ConfigField, Declared, FieldKind, declared_by, form_fields
from airflow_provider.values.model import WorkerId

GROUP = {"conn": "kafka_default", "group": "etl"}
JOB = {"job": "job", "defined_at": 0}
OURS = {ACTING_HEADER: "1", "Sec-Fetch-Site": "same-origin"}
JOBS_CODE = "jobs_of_others:Wanted"
SCHEMA = {
    "type": "object",
    "required": ["table"],
    "properties": {"table": {"type": "string"}, "rows": {"type": "integer", "default": 100}},
}


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[JobDefinition]:
    seen: list[JobDefinition] = []

    def submit(settings: KafkaSettings, group: str, definition: JobDefinition) -> Submission:
        seen.append(definition)
        return Submission(definition=definition, changed=True)

    monkeypatch.setattr(one_shot, "submit_job", submit)
    return seen


@pytest.fixture
def altered(monkeypatch: pytest.MonkeyPatch) -> list[Operation]:
    seen: list[Operation] = []

    def carry_out(settings: KafkaSettings, group: str, operation: Operation, *, by: str) -> Outcome:
        seen.append(operation)
        return Outcome(subject="job", changed=True)

    monkeypatch.setattr(one_shot, "carry_out", carry_out)
    return seen


def planned(schema: dict[str, Any] | None) -> JobsSnapshot:
    config, settings = {"table": "a", "secret": "xyz"}, {"spark.sql.a": "1"}
    known = replace(job(), entry_point=JOBS_CODE, config=config, max_tasks=4, session_conf=settings)
    jobs = jobs_snapshot(known, tasks=1)
    return replace(jobs, plans={"job": replace(jobs.plans["job"], config_schema=schema)})


def page_of() -> Page:
    return make_page(StillTopics(jobs=planned(None)))


def post(page: Page, act: str, **body: Any) -> tuple[int, str]:
    with page.browser("USER") as browser:
        answer = browser.post(f"/api/act/{act}", json={**GROUP, **body}, headers=OURS)
    said = answer.json()
    return answer.status_code, said.get("words") or said["detail"]


def test_a_job_is_submitted_in_the_users_name_and_no_value_of_its_config_is_in_the_audit_log(
    submitted: list[JobDefinition],
) -> None:
    page = page_of()
    body = {"job": "sales", "entry_point": "my_jobs:Sales", "config": {"password": "hunter2"}, "max_tasks": 3}
    assert post(page, "submit", **body) == (200, "job sales: submitted")
    ((definition),) = submitted
    assert (definition.submitted_by, definition.config, definition.max_tasks) == ("ann", {"password": "hunter2"}, 3)
    ((event, by, extra),) = page.noted
    assert (event, by) == ("cospark_submit", "ann")
    assert json.loads(extra)["config"] == ["password"]
    assert "hunter2" not in extra


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"job": "a b"}, "job 'a b', name: use 1 to 200 letters"),
        ({"entry_point": "nonsense"}, "must have the shape 'package.module:ClassOrFunction'"),
        ({"max_tasks": 0}, "max_tasks"),
        ({"session_conf": {"spark.executor.memory": "9g"}}, "session_conf: 'spark.executor.memory' applies when Spark"),
        ({"session_conf": {"spark.sql.a": [1]}}, "session_conf: 'spark.sql.a' must be the name of a setting"),
    ],
)
def test_what_can_not_be_accepted_is_refused_before_anything_is_written(
    submitted: list[JobDefinition], body: dict[str, Any], refusal: str
) -> None:
    status, words = post(page_of(), "submit", **{"job": "sales", "entry_point": JOBS_CODE, **body})
    assert status == 409
    assert refusal in words
    assert not submitted


def test_a_job_is_altered_by_what_has_changed_of_it(altered: list[Operation]) -> None:
    changes = {"config": {"table": "b", "secret": None}, "max_tasks": 5}
    assert post(page_of(), "alter", **JOB, **changes) == (200, "job job: altered")
    assert altered == [
        AlterJob(job="job", defined_at=0, config={"table": "b", "secret": None}, settings={"max_tasks": 5})
    ]


def test_settings_of_spark_are_given_shown_and_changed_and_only_their_names_are_in_the_audit_log(
    submitted: list[JobDefinition], altered: list[Operation]
) -> None:
    page = page_of()
    given = {"fs.s3a.secret.key": "hunter2"}
    assert post(page, "submit", job="sales", entry_point="my_jobs:Sales", session_conf=given)[0] == 200
    assert submitted[0].session_conf == given
    with page.browser("USER") as browser:
        form = browser.get("/api/definition", params={**GROUP, "job": "job"}).json()
    assert form["session_conf"] == {"spark.sql.a": "1"}
    changes = {"spark.sql.a": None, "fs.s3a.secret.key": "hunter2"}
    assert post(page, "alter", **JOB, session_conf=changes)[0] == 200
    assert altered == [AlterJob(job="job", defined_at=0, session_conf=changes)]
    noted = [json.loads(extra)["session_conf"] for _, _, extra in page.begun]
    assert noted == [["fs.s3a.secret.key"], ["fs.s3a.secret.key", "spark.sql.a"]]


def test_a_config_is_shown_to_those_only_who_may_change_it() -> None:
    page = page_of()
    query = {**GROUP, "job": "job"}
    with page.browser("VIEWER") as browser:
        refused = browser.get("/api/definition", params=query)
        assert (refused.status_code, "xyz" in refused.text) == (403, False)
        assert browser.get("/api/declared", params={**GROUP, "entry_point": JOBS_CODE}).status_code == 403
    with page.browser("USER") as browser:
        assert browser.get("/api/definition", params=query).json()["config"] == {"table": "a", "secret": "xyz"}
        assert browser.get("/api/definition", params={**GROUP, "job": "gone"}).status_code == 404


def test_the_form_has_the_fields_that_the_plan_says_the_job_declares() -> None:
    jobs = planned(SCHEMA)
    assert declared_by(JOBS_CODE, jobs).fields == (
        ConfigField(name="table", kind=FieldKind.TEXT, required=True),
        ConfigField(name="rows", kind=FieldKind.INTEGER, required=False, default=100),
    )
    assert declared_by(JOBS_CODE, planned({})) == Declared(), "it declares nothing, and that is known"
    assert "'other:Job' has been planned" in declared_by("other:Job", jobs).unknown
    assert "has been planned" in declared_by(JOBS_CODE, replace(jobs, plans={})).unknown
    assert "does not say" in declared_by(JOBS_CODE, planned(None)).unknown
    again = replace(jobs.jobs["job"], name="again")
    plan = PlanRecord.of(again, [{}], planned_by=WorkerId("w"), at_ms=2)
    both = replace(jobs, jobs={**jobs.jobs, "again": again}, plans={**jobs.plans, "again": plan})
    assert declared_by(JOBS_CODE, both) == declared_by(JOBS_CODE, jobs), "a worker of an older release has planned last"


def test_the_form_is_made_without_importing_anything_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of DAG authors is not run where all of Airflow's secrets are."""
    monkeypatch.setattr(importlib, "import_module", lambda name: pytest.fail(f"{name} is imported"))
    page = make_page(StillTopics(jobs=planned(SCHEMA)))
    with page.browser("USER") as browser:
        to_submit = browser.get("/api/declared", params={**GROUP, "entry_point": JOBS_CODE}).json()
        to_alter = browser.get("/api/definition", params={**GROUP, "job": "job"}).json()["declared"]
        elsewhere = browser.get("/api/declared", params={**GROUP, "entry_point": "antigravity:Job"}).json()
    assert [field["name"] for field in to_submit["fields"]] == ["table", "rows"]
    assert to_alter == to_submit
    assert elsewhere["fields"] == []
    assert "'antigravity:Job' has been planned" in elsewhere["unknown"]


def test_of_a_schema_what_no_field_can_hold_is_written_as_json() -> None:
    schema = {
        "type": "object",
        "required": ["mode", "parts"],
        "properties": {
            "mode": {"enum": ["full", "delta"], "description": "how"},
            "parts": {"type": "array", "items": {"type": "string"}},
            "share": {"type": "number", "default": 0.5},
            "dry": {"type": "boolean"},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "self": {"$ref": "#/properties/self"},
            "elsewhere": {"$ref": "https://example.com/schema"},
        },
    }
    fields = {field.name: field for field in form_fields(schema)}
    assert {name: field.kind.value for name, field in fields.items()} == {
        "mode": "choice",
        "parts": "json",
        "share": "number",
        "dry": "flag",
        "either": "json",
        "self": "json",
        "elsewhere": "json",
    }
    assert (fields["mode"].choices, fields["mode"].about, fields["mode"].required) == (("full", "delta"), "how", True)
    assert (fields["share"].default, fields["share"].required) == (0.5, False)
    assert form_fields({"$ref": "#/nowhere"}) == ()


def test_a_pydantic_model_makes_a_form_too() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model(
        "Model", table=(str, ...), rows=(int | None, pydantic.Field(None, description="most"))
    )
    assert form_fields(model.model_json_schema()) == (
        ConfigField(name="table", kind=FieldKind.TEXT, required=True),
        ConfigField(name="rows", kind=FieldKind.INTEGER, required=False, about="most"),
    )
