"""What runs all tests says which steps have failed, whatever else runs beside them, and lets none hang."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest
from loaded_scripts import SCRIPTS, load
from waiting import DEADLINE_S, SLOWNESS


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load("run-tests")


@pytest.fixture(scope="module")
def steps_of() -> ModuleType:
    return load("steps")


SILENT_S = 3.0 * SLOWNESS
"""A Python that starts is silent for less."""


def python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-c", program)


def test_a_step_that_fails_is_named_and_the_others_go_on(
    steps_of: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = [
        steps_of.Step("good", 1, python("print('all is well')")),
        steps_of.Step("bad", 1, python("print('no'); raise SystemExit(3)")),
        steps_of.Step("next", 1, python("pass")),
    ]
    results = {result.step.name: result for result in steps_of.run(steps, cores=2, silent_s=DEADLINE_S)}
    assert {name: (result.status, result.passed) for name, result in results.items()} == {
        "good": (0, True),
        "bad": (3, False),
        "next": (0, True),
    }
    told = capsys.readouterr().out
    assert "[good] all is well\n" in told
    assert "FAILED (exit 3)" in told


def test_a_step_that_is_nice_gives_way_also_where_sessions_share_the_cores(
    steps_of: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Path("/proc/self/autogroup")
    program = f"import os; print(os.nice(0)); print(open('{session}').read() if {session.exists()} else 'nice 7')"
    steps_of.run([steps_of.Step("nice", 1, python(program), nice=7)], cores=2, silent_s=DEADLINE_S)
    told = capsys.readouterr().out
    assert f"[nice] {min(19, os.nice(0) + 7)}\n" in told
    assert "nice 7\n" in told


def test_a_step_that_ends_well_in_the_middle_has_failed(steps_of: ModuleType) -> None:
    """As when the code under test ends the process."""
    said = [f"==== {count} passed in 1.5s ====" for count in (1, 2)]
    steps = [
        steps_of.Step("whole", 1, python(f"print('{said[0]}')"), ends="passed in"),
        steps_of.Step(
            "half", 1, python(f"import os; print('..', flush=True); os._exit(0); print('{said[1]}')"), ends="passed in"
        ),
    ]
    results = {result.step.name: result for result in steps_of.run(steps, cores=2, silent_s=DEADLINE_S)}
    assert {name: result.passed for name, result in results.items()} == {"whole": True, "half": False}
    assert "FAILED (exit 0 before its end)" in str(results["half"])


@pytest.mark.slow
def test_a_step_that_hangs_says_where_and_has_failed_even_if_it_ends_well(
    steps_of: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps_of, "LAST_WORDS_S", 0.5)
    wait = "import signal, time\n{}\nprint('it hangs', flush=True)\ntime.sleep(600)"
    polite = "signal.signal(signal.SIGINT, lambda *_: (print('in the middle', flush=True), exit(0)))"
    deaf = "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    steps = [
        steps_of.Step("polite", 1, python(wait.format(polite))),
        steps_of.Step("deaf", 1, python(wait.format(deaf))),
    ]
    results = {result.step.name: result for result in steps_of.run(steps, cores=2, silent_s=SILENT_S)}
    assert {name: (result.status, result.passed) for name, result in results.items()} == {
        "polite": (0, False),
        "deaf": (-9, False),
    }
    told = capsys.readouterr().out
    assert "[polite] in the middle\n" in told
    assert told.count("it hangs\n") == 2


def test_a_second_signal_does_not_leave_steps_behind(steps_of: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    program = """
        import os, signal, sys, time

        def end(*_):
            os.kill(os.getppid(), signal.SIGINT)
            time.sleep(0.3)
            print("has cleared away", flush=True)
            sys.exit()

        signal.signal(signal.SIGINT, end)
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(600)
    """
    with pytest.raises(KeyboardInterrupt):
        steps_of.run([steps_of.Step("step", 1, python(dedent(program)))], cores=1, silent_s=DEADLINE_S)
    assert "[step] has cleared away\n" in capsys.readouterr().out


PYTEST_SAYS = """\
==================================== ERRORS ====================================
____________________ ERROR collecting tests/test_broken.py _____________________
E   SyntaxError: invalid syntax
___________________ ERROR at teardown of test_that_is_last _____________________
  + Exception Group Traceback (most recent call last):
  |   File "unraisableexception.py", line 77, in collect_unraisable
  |     raise ExceptionGroup("multiple unraisable exception warnings", errors)
  | ExceptionGroup: multiple unraisable exception warnings (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    | ResourceWarning: unclosed transport <_SelectorSocketTransport fd=16>
    | pytest.PytestUnraisableExceptionWarning: Exception ignored in: <function __del__>
    +---------------- 2 ----------------
    | ResourceWarning: unclosed <socket.socket fd=16>
    +------------------------------------
=================================== FAILURES ===================================
___________________________ TestIt.test_sum[1 - 1] _____________________________
>       assert 1 - 1 == 1
E       assert 0 == 1
E
_______________________________ test_that_is_last ______________________________
E       AssertionError: in the other file
=========================== short test summary info ============================
ERROR tests/test_broken.py - SyntaxError: invalid syntax
ERROR tests/test_here.py::test_that_is_last - ExceptionGroup: multiple unr...
FAILED tests/test_here.py::TestIt::test_sum[1 - 1] - assert 0 == 1
FAILED tests/test_there.py::test_that_is_last - AssertionError: in the oth...
"""


def test_why_a_test_has_failed_is_said_with_its_name(steps_of: ModuleType) -> None:
    words = steps_of.Words()
    for line in PYTEST_SAYS.splitlines():
        words.hear(line)
    told = [[line.strip(" |") for line in failure.lines(9)] for failure in words.failures()]
    assert told == [
        ["ERROR tests/test_broken.py - SyntaxError: invalid syntax", "E   SyntaxError: invalid syntax"],
        [
            "ERROR tests/test_here.py::test_that_is_last - ExceptionGroup: multiple unr...",
            "ExceptionGroup: multiple unraisable exception warnings (2 sub-exceptions)",
            "ResourceWarning: unclosed transport <_SelectorSocketTransport fd=16>",
            "pytest.PytestUnraisableExceptionWarning: Exception ignored in: <function __del__>",
            "ResourceWarning: unclosed <socket.socket fd=16>",
        ],
        ["FAILED tests/test_here.py::TestIt::test_sum[1 - 1] - assert 0 == 1", "E       assert 0 == 1"],
        [
            "FAILED tests/test_there.py::test_that_is_last - AssertionError: in the oth...",
            "E       AssertionError: in the other file",
        ],
    ]


def test_all_that_failed_is_said_in_the_last_lines(steps_of: ModuleType) -> None:
    """Also of a step of which no test has failed."""
    steps = [
        steps_of.Step("mute", 1, python("for line in range(99): print('line', line)\nraise SystemExit(3)")),
        steps_of.Step("pytest", 1, python(f"print({PYTEST_SAYS!r})\nraise SystemExit(1)")),
        steps_of.Step("good", 1, python(f"print({PYTEST_SAYS!r})")),
    ]
    results = steps_of.run(steps, cores=1, silent_s=DEADLINE_S)
    told = [*steps_of.summary(results)][3:]
    verdict = steps_of.verdict([result for result in results if not result.passed])
    assert verdict.startswith("Failed: mute (no test); pytest (ERROR tests/test_broken.py - SyntaxError: invalid")
    assert len(told) <= 20
    assert "[mute]     line 98" in told
    assert [line for line in told if "FAILED" in line or "ERROR" in line] == [
        f"[pytest] {line}" for line in PYTEST_SAYS.splitlines()[-4:]
    ]


@pytest.mark.slow
def test_as_many_run_at_a_time_as_there_is_room_for(steps_of: ModuleType, tmp_path: Path) -> None:
    """The first of those that fit; one that never would runs alone. Three wait until all of them have begun."""
    together = {"one", "half", "other half"}
    began = """
        import pathlib, sys, time
        folder, name, *others = sys.argv[1:]
        pathlib.Path(folder, name).touch()
        while not all(pathlib.Path(folder, other).exists() for other in others):
            time.sleep(0.01)
    """
    steps = [
        steps_of.Step(
            name, cores, (*python(dedent(began)), str(tmp_path), name, *(together if name in together else ()))
        )
        for name, cores in {"large": 9, "one": 1, "half": 0.5, "another": 1, "other half": 0.5}.items()
    ]
    assert all(result.passed for result in steps_of.run(steps, cores=2, silent_s=DEADLINE_S))
    order = sorted(tmp_path.iterdir(), key=lambda file: file.stat().st_mtime_ns)
    assert order[0].name == "large"
    assert {file.name for file in order[1:4]} == together
    assert order[4].name == "another"


def test_every_test_belongs_to_a_step(script: ModuleType) -> None:
    """Levels are whole folders, and what one step leaves out another one runs."""
    arguments = [argument for step in script.STEPS for argument in step.command]
    levels = {path.name for path in (SCRIPTS.parent / "tests").iterdir() if list(path.rglob("test_*.py"))}
    assert {argument for argument in arguments if argument.count("/") == 1 and argument.startswith("tests/")} == {
        f"tests/{level}" for level in levels
    }
    left_out = {argument.removeprefix("--ignore=") for argument in arguments if argument.startswith("--ignore=")}
    assert left_out <= set(arguments)


@pytest.mark.slow
def test_a_step_may_take_as_long_as_it_likes_while_it_says_something(steps_of: ModuleType) -> None:
    """A dot is enough, without the end of a line."""
    dots = (
        f"import sys, time\nfor _ in range({20 * SILENT_S:.0f}): sys.stdout.write('.'); time.sleep(0.1)\nprint(' done')"
    )
    (result,) = steps_of.run([steps_of.Step("dots", 1, python(dots))], cores=2, silent_s=SILENT_S)
    assert result.passed
    assert result.took_s > SILENT_S
