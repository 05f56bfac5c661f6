"""How an SQL file is split into statements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.jobs.sql_statements import Statement, leading_comments, named_before, statements_of


def texts_of(text: str) -> list[str]:
    return [statement.text for statement in statements_of(text)]


def test_a_statement_has_its_line_and_no_comment_before_it() -> None:
    text = "-- first\nSELECT 1;\n\n/* two;\nlines */ SELECT\n  2 -- two\n;\n"
    assert statements_of(text) == [Statement(2, "SELECT 1"), Statement(5, "SELECT\n  2 -- two")]


@pytest.mark.parametrize("text", ["", " \n", ";", ";;\n;", "-- nothing;", "/* nothing; */;", "-- one\n;/* two */"])
def test_where_there_is_nothing_there_is_no_statement(text: str) -> None:
    assert statements_of(text) == []


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT ';'",
        'SELECT ";"',
        "SELECT 1 AS `;`",
        "SELECT `a``;b`",
        "SELECT 'it''s;'",
        r"SELECT 'it\'s;'",
        r"SELECT '\\', ';'",
        r"SELECT r'\', ';'",
        r'SELECT R"\", ";"',
        r"SELECT bar'\';'",
        "SELECT 1 -- ;'\n + 2",
        "SELECT 1 -- two lines;\\\n;\n + 2",
        "SELECT 1 /* ;' */ + 2",
        "SELECT 1 /* a /* b; */ c; */ + 2",
        "SELECT /*+ REPARTITION(3) */ 1",
        "SELECT /* a /*+ b */ + 1",
        "CREATE VIEW v WITH METRICS LANGUAGE YAML AS $$\na: ';\n$$",
        "CREATE VIEW v WITH METRICS LANGUAGE YAML AS $a$ $$; $a$",
        "SELECT '--', '/*', `$$`",
        "SELECT $1",
        "SELECT 'two\n;lines'",
    ],
)
def test_no_semicolon_in_a_string_a_name_or_a_comment_ends_a_statement(statement: str) -> None:
    assert texts_of(f"{statement};SELECT 2") == [statement, "SELECT 2"]


def test_a_hint_is_a_part_of_the_statement_that_begins_with_it() -> None:
    assert texts_of("/*+ COALESCE(1) */ SELECT 1; SELECT 2") == ["/*+ COALESCE(1) */ SELECT 1", "SELECT 2"]


@pytest.mark.parametrize("unclosed", ["SELECT 'a; b", 'SELECT "a; b', "SELECT `a; b", "/* a; b", "SELECT $$ a; b $a$"])
def test_what_is_not_closed_goes_to_the_end_for_spark_to_refuse_it(unclosed: str) -> None:
    assert texts_of(f"SELECT 1; {unclosed}") == ["SELECT 1", unclosed]


@pytest.mark.parametrize("begin", ["BEGIN", "begin", "load: BEGIN", "`a load` :\nBEGIN"])
def test_a_script_goes_to_the_end_of_the_file(begin: str) -> None:
    script = f"{begin}\n  DECLARE n INT DEFAULT 1;\n  SELECT n;\nEND;"
    assert texts_of(f"SET a = 1; -- and then\n{script}\n") == ["SET a = 1", script]


def test_a_statement_that_only_has_the_word_is_no_script() -> None:
    assert texts_of("SELECT begin FROM t; SELECT 1 AS begin; beginning") == [
        "SELECT begin FROM t",
        "SELECT 1 AS begin",
        "beginning",
    ]


def test_leading_comments_are_those_before_the_first_statement() -> None:
    text = "-- one\n\n/* two */ -- three\n;SELECT 1 -- four\n; -- five"
    assert list(leading_comments(text)) == ["-- one", "/* two */", "-- three"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("-- after: a.sql\nSELECT 1", ["a.sql"]),
        ("/* Copyright */\n\n--AFTER:a.sql, staging/b c.sql ,\n-- after: d.sql", ["a.sql", "staging/b c.sql", "d.sql"]),
        ("SELECT 1; -- after: a.sql", []),
        ("-- hereafter: a.sql\n/* after: b.sql */\nSELECT '-- after: c.sql'", []),
    ],
)
def test_the_comments_before_the_first_statement_name_what_runs_before(text: str, names: list[str]) -> None:
    assert named_before(text) == names


# --- any text

ANYTHING = st.text(alphabet="a'\"`;-/*+\\\n $r", max_size=30)
WORDS = st.text(alphabet="abc ()=\n", min_size=1).filter(str.strip)
QUOTED = st.one_of(
    ANYTHING.map(lambda text: "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"),
    ANYTHING.map(lambda text: "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"),
    ANYTHING.map(lambda text: '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'),
    ANYTHING.map(lambda text: "`" + text.replace("`", "``") + "`"),
    ANYTHING.map(lambda text: " r'" + text.replace("'", "") + "'"),
    ANYTHING.map(lambda text: "$x$" + text + "$x$"),
)
COMMENT = st.one_of(
    ANYTHING.map(lambda text: "--" + text.replace("\n", " ").replace("\\", "") + "\n"),
    ANYTHING.map(lambda text: "/* " + text.replace("/", "").replace("*", "") + " */"),
)
STATEMENT = st.tuples(WORDS, st.lists(st.one_of(WORDS, QUOTED, COMMENT), max_size=6)).map(
    lambda parts: (parts[0] + " ".join(parts[1])).strip()
)


@given(st.lists(STATEMENT, max_size=5))
def test_statements_that_are_joined_are_split_again(statements: list[str]) -> None:
    text = "\n;".join(statements)
    assert texts_of(text) == statements
    lines = text.split("\n")
    for statement in statements_of(text):
        assert statement.text.split("\n")[0] in lines[statement.line - 1]


@given(ANYTHING)
def test_each_statement_is_a_part_of_the_text_and_split_no_further(text: str) -> None:
    at = 0
    for statement in statements_of(text):
        found = text.find(statement.text, at)
        assert found >= at
        at = found + len(statement.text)
        assert texts_of(statement.text) == [statement.text]
