"""What the pages show works: code runs, commands are understood, links lead somewhere, examples are the real ones."""

from __future__ import annotations

import argparse
import ast
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_provider import __version__
from airflow_provider.cli import main as cli

ROOT = Path(__file__).parents[4]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
OURS = [file for room in ("operators", "sensors", "task_groups") for file in ROOT.glob(f"airflow_provider/{room}/*.py")]
OURS += [
    ROOT / "airflow_provider" / name
    for name in ("hooks/spark_group.py", "state/records/jobs_topic/jobs.py", "spark/job/__init__.py")
]
RUNNABLE = re.compile(r"<!-- runnable(?:: \w+)? -->\n```python\n(.*?)```", re.DOTALL)
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


@pages
def test_code_runs(page: Path) -> None:
    """All blocks of a page, one after the other, as a reader would try them."""
    text = page.read_text()
    names: dict[str, Any] = {"__name__": "docs"}
    for block in RUNNABLE.finditer(text):
        line = text.count("\n", 0, block.start(1))
        exec(compile("\n" * line + block[1], str(page), "exec", dont_inherit=True), names)


def _dag_blocks() -> list[Any]:
    return [
        pytest.param(block[1], id=f"{page} {text.count(chr(10), 0, block.start()) + 1}")
        for page in ("dags", "scheduling", "tutorial")
        for text in [(ROOT / "docs" / f"{page}.md").read_text()]
        for block in re.finditer(r"```python\n(.*?)```", text, re.DOTALL)
    ]


@pytest.mark.parametrize("block", _dag_blocks())
def test_a_block_about_dags_can_be_copied_and_makes_its_dag(block: str) -> None:
    """By itself, without anything that stands elsewhere on the page."""
    tree, names = ast.parse(block), {"__name__": "copied"}
    dags = [statement for statement in tree.body if isinstance(statement, ast.With)]
    for dag in dags:
        dag.items[0].optional_vars = ast.Name(id="dag", ctx=ast.Store())
    exec(compile(ast.fix_missing_locations(tree), "docs", "exec", dont_inherit=True), names)
    assert "DAG(" not in block or dags
    for _ in dags:
        made: Any = names["dag"]
        made.validate()
        made.check_cycle()


def test_the_page_about_dags_has_the_import_line_of_each_class_it_shows() -> None:
    text = (ROOT / "docs" / "dags.md").read_text()
    blocks = "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    imported = {
        alias.name for node in ast.walk(ast.parse(blocks)) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    ours = set(re.findall(r"^class (\w+)", "".join(path.read_text() for path in OURS), re.MULTILINE))
    shown = set(re.findall(r"\b[A-Z]\w+", text)) & ours
    assert shown
    assert shown <= imported


@pages
def test_python_is_python(page: Path) -> None:
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        compile(block, str(page), "exec")


@pytest.mark.slow
def test_nobody_is_told_to_install_the_package_from_an_index_where_it_is_not() -> None:
    """There, anybody could publish something else under this name."""
    sources = [path for folder in ("airflow_provider", "demo") for path in (ROOT / folder).rglob("*.py")]
    for path in (*PAGES, *sources):
        assert not re.search(r"install\W+airflow-provider-cooperative-spark", path.read_text()), path


@pages
def test_commands_are_understood(page: Path) -> None:
    for block in SHELL.findall(page.read_text()):
        for command in block.splitlines():
            words = shlex.split(command, comments=True)
            words = words[: words.index("|")] if "|" in words else words
            if "cospark" in words[:2]:
                arguments = words[words.index("cospark") + 1 :]
                cli._parser(arguments[0]).parse_args(arguments)


def test_the_commands_of_a_manifest_are_understood() -> None:
    """The program of its container, and what is to be called before it ends."""
    (manifest,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "kubernetes.md").read_text(), re.DOTALL)
    (container,) = yaml.safe_load(manifest.replace("$(POD_NAME)", "etl-0"))["spec"]["template"]["spec"]["containers"]
    *_, before_its_end = container["lifecycle"]["preStop"]["exec"]["command"]
    for program, *arguments in ([*container["command"], *container["args"]], shlex.split(before_its_end)):
        assert program == "cospark"
        cli._parser(arguments[0]).parse_args(arguments)


@pytest.mark.slow
@pages
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text()):
        if target.startswith("http"):
            continue
        linked = (page.parent / target).resolve() if target else page
        assert linked.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in _anchors(linked), f"{page.name} links to {target}{anchor}"


@pytest.mark.slow
@pages
def test_examples_are_those_of_the_example_dags(page: Path) -> None:
    synced = runpy.run_path(str(ROOT / "docs" / "sync_examples.py"))["synced"]
    assert page.read_text() == synced(page.read_text()), "run python docs/sync_examples.py and commit what it writes"


def test_the_sql_that_is_shown_is_that_of_the_example() -> None:
    text = (ROOT / "docs" / "ready-made-jobs.md").read_text()
    files = [file.read_text() for file in (ROOT / "airflow_provider" / "example_dags" / "sql").iterdir()]
    shown = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    assert shown
    assert set(shown) <= set(files)


@pages
def test_tests_that_are_named_exist(page: Path) -> None:
    for path, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text()):
        assert (ROOT / path).exists(), f"{page.name} names {path}"
        assert not name or f"def {name}(" in (ROOT / path).read_text(), f"{page.name} names {path}::{name}"


def test_the_changelog_has_this_release_and_each_whose_records_are_read() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    releases = re.findall(r"^## \[([\d.]+)\]", changelog, re.MULTILINE)
    assert releases[0] == __version__
    written = [re.sub(r"^\w+-", "", file.stem) for file in (ROOT / "tests" / "unit" / "releases" / "golden").iterdir()]
    assert not [release for release in written if release not in changelog]


def test_each_line_of_what_happens_when_is_shown_by_a_system_test() -> None:
    """The test says so: ``@pytest.mark.shows("a worker joins")``, with the first cell of each line that it shows."""
    lines = {row.split("|")[1].strip() for row in _rows((ROOT / "docs" / "what-happens.md").read_text())}
    assert len(lines) >= 10
    shown = {line for file in (ROOT / "tests" / "system").glob("test_*.py") for line in _shown_in(file)}
    assert not lines - shown, "write a test in tests/system"
    assert not shown - lines, "no line of the table any more"


def _shown_in(file: Path) -> Iterator[str]:
    for function in ast.parse(file.read_text()).body:
        for decorator in getattr(function, "decorator_list", []):
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.shows":
                yield from map(ast.literal_eval, decorator.args)


@pytest.mark.parametrize(
    ("heading", "page", "number"),
    [("What happens when", "what-happens", 5), ("What is measured", "benchmarks", 5)],
)
def test_the_readmes_tables_are_parts_of_those_on_the_site(heading: str, page: str, number: int) -> None:
    section = (ROOT / "README.md").read_text().partition(f"## {heading}")[2].partition("\n## ")[0]
    rows = _rows(section.replace("](docs/", "]("))
    assert len(rows) == number
    assert not set(rows) - set(_rows((ROOT / "docs" / f"{page}.md").read_text()))


def _rows(text: str) -> list[str]:
    """The rows of its tables, without their heads."""
    return re.findall(r"(?<=\|\n)\| .*", text)


def test_ci_runs_a_command_that_the_readme_names() -> None:
    runs = (ROOT / ".ci" / "run").read_text().splitlines()[-1].removeprefix("exec ")
    assert re.search(rf"^{runs}\b", (ROOT / "README.md").read_text(), re.MULTILINE)


def test_the_readme_sorts_and_names_the_pages_as_the_site_does() -> None:
    section = (ROOT / "README.md").read_text().partition("## Documentation")[2].partition("\n## ")[0]
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2].partition("\n\n")[0]
    named = re.findall(r"\*\*(.+?):\*\*|\[(.+?)\]\(", section)
    assert named
    of_site = re.findall(r"^  - (.+):$|^      - (.+): (?!index|reference)", nav, re.MULTILINE)
    assert named == of_site


def test_the_commands_table_has_every_command() -> None:
    table = (ROOT / "docs" / "command-line.md").read_text()
    called = []
    for name in cli.COMMANDS:
        actions = _below(_below(cli._parser(name))[name])
        called += [f"{name} {action}" for action in actions] or [name]
    assert "jobs retry" in called
    assert not [command for command in called if not re.search(rf"`cospark {command}[ `]", table)]


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser."""
    (choices,) = [each.choices for each in parser._actions if isinstance(each, argparse._SubParsersAction)] or [{}]
    return choices


def _anchors(page: Path) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {"#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
