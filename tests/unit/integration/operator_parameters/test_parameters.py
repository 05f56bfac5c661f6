"""What DAG authors pass, checked."""

from __future__ import annotations

from collections import UserList
from collections.abc import Callable
from datetime import timedelta
from enum import Enum

import pytest
from airflow.sdk import DAG, task
from markupsafe import Markup

from airflow_provider.integration.operator_parameters.parameters import (
    allowed_applications,
    allowed_conf,
    choice,
    group_name,
    is_template,
    job_name,
    json_map,
    milliseconds,
    prefixes,
    text_changes,
    text_mapping,
    whole_number,
    worker_name,
)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(timedelta(seconds=1.5), 1500), (2, 2000), (0.25, 250), (0, 0), (timedelta(days=2), 172_800_000)],
)
def test_times_are_timedeltas_or_seconds(value: object, expected: int) -> None:
    assert milliseconds("timeout", value) == expected


@pytest.mark.parametrize(
    "value", [-1, timedelta(seconds=-1), True, "5", None, float("nan"), float("inf"), 1e30, 10**400]
)
def test_other_times_are_refused_by_their_parameters_name(value: object) -> None:
    with pytest.raises(ValueError, match=r"^linger: "):
        milliseconds("linger", value)


def test_numbers_may_come_from_templates() -> None:
    assert whole_number("slots", "3", least=1) == 3
    assert whole_number("slots", 3, least=1) == 3
    for wrong in ("", "three", "0", 0, -1, 1.0, True, None, "9" * 5000):
        with pytest.raises(ValueError, match=r"^slots: "):
            whole_number("slots", wrong, least=1)


@pytest.mark.parametrize("name", ["g", "A-1_b.c", "x" * 242])
def test_good_names(name: str) -> None:
    assert group_name(name) == name
    assert worker_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "x" * 250, None, 1.5, True, "a:b", "a\n"])
@pytest.mark.parametrize(("check", "parameter"), [(group_name, "group"), (worker_name, "worker"), (job_name, "job")])
def test_names_that_kafka_cannot_carry(check: Callable[[object], str], parameter: str, name: object) -> None:
    with pytest.raises(ValueError, match=f"^{parameter}: "):
        check(name)


def test_prefixes_are_modules() -> None:
    assert prefixes("allowed", ["a.b", "c"]) == ("a.b", "c")
    assert prefixes("allowed", "a.b, c") == ("a.b", "c")
    for wrong in ([], "", None, ["a b"], ["a."], [1], ["*"], "a.b:C"):
        with pytest.raises(ValueError, match=r"^allowed: "):
            prefixes("allowed", wrong)


def test_what_jobs_may_set_besides_is_a_list_of_patterns() -> None:
    assert allowed_conf(["spark.sql.iceberg.*", "spark.wap.id"]).more == ("spark.sql.iceberg.*", "spark.wap.id")
    assert allowed_conf("spark.sql.iceberg.*, spark.wap.id").more == ("spark.sql.iceberg.*", "spark.wap.id")
    assert allowed_conf(()).more == ()
    for wrong in (None, 1, [1], "*", ["fs.*"], ["spark.sql.catalog.*"]):
        with pytest.raises(ValueError, match=r"^allowed_session_conf: "):
            allowed_conf(wrong)


def test_applications_are_made_of_what_is_in_a_list() -> None:
    assert allowed_applications(["/opt/apps", "yarn"]).parts == ("/opt/apps", "yarn")
    assert allowed_applications("/opt/apps, yarn").parts == ("/opt/apps", "yarn")
    assert allowed_applications(()).parts == ()
    for wrong in (None, 1, [1], "apps"):
        with pytest.raises(ValueError, match=r"^allowed_applications: "):
            allowed_applications(wrong)


def test_spark_settings_are_texts_as_spark_reads_them() -> None:
    given = {"spark.sql.adaptive.enabled": True, "spark.sql.shuffle.partitions": 8, "spark.app.name": "x"}
    assert text_mapping("spark_conf", given) == {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": "8",
        "spark.app.name": "x",
    }
    refused: list[object] = [{"a": None}, {1: "a"}, {"a": []}, [("a", "b")], "a=b"]
    for wrong in refused:
        with pytest.raises(ValueError, match=r"^spark_conf: "):
            text_mapping("spark_conf", wrong)


def test_changes_of_settings_may_remove_some() -> None:
    assert text_changes("session_conf", {"a": 8, "b": None}) == {"a": "8", "b": None}
    refused: list[object] = [{"a": []}, [("a", "b")], None]
    for wrong in refused:
        with pytest.raises(ValueError, match=r"^session_conf: "):
            text_changes("session_conf", wrong)


def test_a_choice_names_what_there_is() -> None:
    assert choice("colour", "red", Colour) is Colour.RED
    with pytest.raises(ValueError, match="colour: 'green' must be one of red, blue"):
        choice("colour", "green", Colour)


def test_templates_and_other_tasks_outputs_are_known_later() -> None:
    with DAG("d"):

        @task
        def other() -> str:
            return "x"

        assert is_template(other())
    for template in ("{{ run_id }}", "{% if x %}a{% endif %}", {"a": ["{{ ds }}"]}, {"{{ ds }}": 1}, ["{{ ds }}"]):
        assert is_template(template)
    for plain in ("run", "", 1, None, {"a": [1, "b"]}, ["b"], ("b",), str):
        assert not is_template(plain)


class TestMaps:
    """A map, or the JSON text that a template makes of one."""

    @pytest.mark.parametrize("given", [{"a": [1, None]}, '{"a": [1, null]}', Markup('{"a": [1, null]}')])
    def test_a_map_and_its_json_text_are_the_same(self, given: object) -> None:
        assert json_map("config", given) == {"a": [1, None]}

    def test_what_a_mapped_task_returns_is_read(self) -> None:
        assert json_map("config", {"a": UserList([1, 2])}) == {"a": [1, 2]}

    @pytest.mark.parametrize("written", ["{'a': 1}", "None", "", "[" * 100_000])
    def test_pythons_own_spelling_is_refused_with_a_hint(self, written: str) -> None:
        with pytest.raises(ValueError, match=r"^config: is a text, .*\| tojson.*config=prepare\.output$"):
            json_map("config", written)

    @pytest.mark.parametrize(("given", "kind"), [("[1]", "list"), (7, "int")])
    def test_anything_else_is_refused(self, given: object, kind: str) -> None:
        with pytest.raises(ValueError, match=f"^config: must be an object of names and values, not {kind}$"):
            json_map("config", given)

    def test_settings_may_be_json_text_too(self) -> None:
        assert text_mapping("spark_conf", '{"spark.a": true, "spark.b": 8}') == {"spark.a": "true", "spark.b": "8"}
        assert text_changes("session_conf", '{"spark.a": null}') == {"spark.a": None}
