"""The index of symptoms quotes what the package says: a text that has changed here is not found there any more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
SECTIONS = re.split(r"^## ", (ROOT / "docs" / "symptoms.md").read_text(), flags=re.MULTILINE)[1:]
OURS = [section for section in SECTIONS if not section.startswith("Texts of Kafka, Spark and Airflow")]
ANYTHING, BETWEEN = "…", "\0"
FORMATTED = re.compile(r"%[-.\d]*[a-z]")


def quoted(section: str) -> list[str]:
    """What stands in backticks in the first column of its tables."""
    rows = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| you see")]
    return [quote for row in rows for quote in re.findall(r"`([^`]+)`", row.split(" | ")[0])]


def said_in(module: Path) -> Iterator[str]:
    """The texts in a module except docstrings, with "…" for what is put into them."""
    nodes = list(ast.walk(ast.parse(module.read_text(encoding="utf-8"))))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in (node for node in nodes if id(node) not in docstrings):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else ANYTHING for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield FORMATTED.sub(ANYTHING, node.value)


def is_in(quote: str, texts: str) -> bool:
    """Whether one of the texts has all parts of the quote, in their order."""
    parts = [re.escape(part.strip()) for part in quote.split(ANYTHING)]
    return re.search(f"[^{BETWEEN}]*".join(parts), texts) is not None


@pytest.fixture(scope="module")
def texts() -> str:
    said = {text for module in (ROOT / "airflow_provider").rglob("*.py") for text in said_in(module)}
    return BETWEEN.join(sorted(said))


@pytest.mark.slow
@pytest.mark.parametrize("section", OURS, ids=lambda section: section.partition("\n")[0])
def test_each_text_that_is_quoted_is_one_of_the_package(section: str, texts: str) -> None:
    assert [quote for quote in quoted(section) if not is_in(quote, texts)] == []


@pytest.mark.parametrize(
    ("quote", "found"),
    [("no broker of … can be reached", True), ("of … can be reached (… …)", True), ("no broker can be reached", False)],
)
def test_a_quote_leaves_out_only_what_is_put_into_a_text(quote: str, found: bool) -> None:
    texts = BETWEEN.join(["no broker of … is known", "no broker of … can be reached (…); trying again", "no broker"])
    assert is_in(quote, texts) is found


def test_no_symptom_is_there_twice() -> None:
    quotes = [quote for section in SECTIONS for quote in quoted(section)]
    assert len(quotes) > 100
    assert sorted(quotes) == sorted(set(quotes))
