"""Whatever becomes a name in SQL stays a name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType, VarcharType

from airflow_provider.jobs.sql_names import NotANameError, columns_of, quoted, quoted_table


@pytest.mark.parametrize(
    ("name", "in_sql"),
    [
        ("orders", "`orders`"),
        ("lake.raw.orders", "`lake`.`raw`.`orders`"),
        ("my-lake.2026.größe", "`my-lake`.`2026`.`größe`"),
        ("`my lake`.`a.b`.`c``d`", "`my lake`.`a.b`.`c``d`"),
    ],
)
def test_a_tables_name_is_quoted_part_by_part(name: str, in_sql: str) -> None:
    assert quoted_table("table", name) == in_sql


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "lake.",
        "lake..orders",
        "a b",
        "a;b",
        "a(b",
        "a`",
        "`a",
        "``",
        "`a`b`",
        "a.`b```c`",
        "a\n",
        "`${env:HOME}`",
    ],
)
def test_what_is_no_tables_name_is_refused(text: str) -> None:
    with pytest.raises(NotANameError, match=r"^table: .* is no table's name"):
        quoted_table("table", text)


@given(st.text("`a.;${ \n", min_size=1).filter(lambda text: "${" not in text))
def test_a_name_ends_where_it_has_to(part: str) -> None:
    """Between the outer backticks each one is doubled, so none of them is an end."""
    name = quoted(part)
    assert name[0] == name[-1] == "`"
    assert "`" not in name[1:-1].replace("``", "")
    assert quoted_table("table", f"lake.{name}") == f"`lake`.{name}"


@pytest.mark.parametrize("part", ["", "${env:HOME}", "a${spark.app.name}"])
def test_no_name_is_one_in_which_spark_puts_something_else(part: str) -> None:
    with pytest.raises(NotANameError):
        quoted("lake", part)


def test_columns_are_quoted_also_within_their_types() -> None:
    inner = StructType([StructField("y: INT>) --`", StringType())])
    fields = [
        StructField("id` INT) --", LongType()),
        StructField("at", inner),
        StructField("all", ArrayType(MapType(VarcharType(3), inner))),
    ]
    struct = "STRUCT<`y: INT>) --```: string>"
    assert columns_of(fields) == f"`id`` INT) --` bigint, `at` {struct}, `all` ARRAY<MAP<varchar(3), {struct}>>"
