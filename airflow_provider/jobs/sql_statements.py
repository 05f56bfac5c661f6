"""Splits an SQL file into its statements, at the semicolons that are in no string, quoted name or comment. These are
the same as for Spark's own lexer (``SqlBaseLexer.g4``), which only a JVM has. Also reads the comments before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, NamedTuple


class Statement(NamedTuple):
    """A statement, without the comments before it.

    :param line: where it begins in its file, from 1
    """

    line: int
    text: str


class _Kind(Enum):
    CODE = auto()
    COMMENT = auto()
    SEMICOLON = auto()


_OPENING: Final = re.compile(r"""--|/\*(?!\+)|;|['"`]|(?<!\w)[rR]['"]|\$[A-Za-z]*\$""")
"""What begins a comment, a string or a quoted name. ``/*+`` begins a hint, which is code; ``r'`` a string without
escapes; ``$$`` and ``$name$`` a string up to the same mark.
"""
_LINE_COMMENT: Final = re.compile(r"--(?:\\\n|[^\n])*")
"""A backslash at the end of the line continues it."""
_IN_COMMENT: Final = re.compile(r"/\*(?!\+)|\*/")
_WITH_ESCAPES: Final = {quote: re.compile(rf"(?:[^{quote}\\]|\\.)*{quote}", re.DOTALL) for quote in ("'", '"')}
"""The rest of such a string."""
_AFTER: Final = re.compile(r"--\s*after:(.*)", re.IGNORECASE)
_SCRIPT: Final = re.compile(r"(?:(?:\w+|`[^`]*`)\s*:\s*)?BEGIN\b", re.IGNORECASE)


def statements_of(text: str) -> list[Statement]:
    """The statements of a file. A file that has nothing but comments has none. What is not closed (such as a string)
    goes to the end of the file, and Spark refuses it.

    An SQL script, ``BEGIN ... END``, has semicolons of its own. It goes to the end of the file.
    """
    found: list[Statement] = []
    begin: int | None = None
    for kind, start, end in _pieces(text):
        if kind is _Kind.CODE and begin is None:
            begin = _first_word(text, start, end)
            if begin is not None and _SCRIPT.match(text, begin):
                break
        elif kind is _Kind.SEMICOLON and begin is not None:
            found.append(_statement(text, begin, start))
            begin = None
    if begin is not None:
        found.append(_statement(text, begin, len(text)))
    return found


def named_before(text: str) -> list[str]:
    """The files after which this one is to run: ``-- after: a.sql, b.sql`` before the file's first statement."""
    said = filter(None, map(_AFTER.fullmatch, leading_comments(text)))
    return [name.strip() for found in said for name in found[1].split(",") if name.strip()]


def leading_comments(text: str) -> Iterator[str]:
    """The comments of a file before its first statement."""
    for kind, start, end in _pieces(text):
        if kind is _Kind.COMMENT:
            yield text[start:end]
        elif _first_word(text, start, end) is not None:
            return


def _statement(text: str, begin: int, end: int) -> Statement:
    return Statement(text.count("\n", 0, begin) + 1, text[begin:end].rstrip())


def _first_word(text: str, start: int, end: int) -> int | None:
    """Where there is something else than space; None: nowhere."""
    rest = text[start:end].lstrip()
    return end - len(rest) if rest else None


def _pieces(text: str) -> Iterator[tuple[_Kind, int, int]]:
    """All of the text, in pieces: comments, semicolons between statements, and code."""
    at = 0
    while opening := _OPENING.search(text, at):
        if opening.start() > at:
            yield _Kind.CODE, at, opening.start()
        kind, at = _piece(text, opening)
        yield kind, opening.start(), at
    if at < len(text):
        yield _Kind.CODE, at, len(text)


def _piece(text: str, opening: re.Match[str]) -> tuple[_Kind, int]:
    """What the mark opens, and where it ends."""
    mark = opening[0]
    if mark == ";":
        return _Kind.SEMICOLON, opening.end()
    if mark == "--":
        comment = _LINE_COMMENT.match(text, opening.start())
        assert comment is not None
        return _Kind.COMMENT, comment.end()
    if mark == "/*":
        closed = _end_of_comment(text, opening.end())
        return (_Kind.CODE, len(text)) if closed is None else (_Kind.COMMENT, closed)
    return _Kind.CODE, _end_of_quoted(text, mark, opening.end())


def _end_of_comment(text: str, at: int) -> int | None:
    """Comments may have comments in them. None: it is not closed."""
    depth = 1
    for mark in _IN_COMMENT.finditer(text, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return None


def _end_of_quoted(text: str, mark: str, at: int) -> int:
    """A doubled quote counts as the end of one string and the begin of the next, which comes to the same."""
    if mark in _WITH_ESCAPES:
        closed = _WITH_ESCAPES[mark].match(text, at)
        return closed.end() if closed else len(text)
    closing = mark if mark.startswith("$") else mark[-1]
    found = text.find(closing, at)
    return len(text) if found < 0 else found + len(closing)
