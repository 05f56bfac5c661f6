"""What is taken for the Spark of a worker."""

from __future__ import annotations

import pytest

from airflow_provider.spark.masters import own_master, usable_master


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local-cluster[2,1,1024]", "spark://a:7077,b:7077", "yarn", "k8s://https://k:443"]
)
def test_what_spark_knows_is_left_as_it_is(master: str) -> None:
    assert usable_master(master) == master


def test_a_server_is_known_by_one_url() -> None:
    assert usable_master("sc://spark") == "sc://spark:15002/;user_id=cospark;use_ssl=false"


@pytest.mark.parametrize("master", ["sc:/host:15002", "http://host/;token=abc", "host:7077", "sc//host"])
def test_what_spark_would_refuse_later_is_refused_at_once_and_not_repeated(master: str) -> None:
    with pytest.raises(ValueError, match="begins with local, spark://, k8s://, yarn, or a Spark Connect") as refused:
        usable_master(master)
    assert master not in str(refused.value)


@pytest.mark.parametrize("master", ["spark://a", "spark://a:7077,b", "spark://", "spark://a:7077/", "spark://:7077"])
def test_a_standalone_master_without_a_port_is_refused_before_spark_starts(master: str) -> None:
    with pytest.raises(ValueError, match="the master of a standalone cluster must be spark://host:port"):
        usable_master(master)


def test_the_spark_of_a_server_is_no_other_server() -> None:
    assert own_master("spark://a:7077") == "spark://a:7077"
    with pytest.raises(ValueError, match=r"^must be a Spark master, which begins with local, spark://, k8s://, yarn$"):
        own_master("sc://spark")
