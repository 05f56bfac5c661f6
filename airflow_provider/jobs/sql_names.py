"""Names in SQL. What a config or a topic's records contain becomes a name there, and never anything else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField

_PART: Final = r"(?:[\w-]+|`(?:[^`]|``)+`)"
_TABLE: Final = re.compile(rf"{_PART}(?:\.{_PART})*")
_PARTS: Final = re.compile(_PART)
_REPLACED: Final = "${"
"""Before it parses a text, Spark puts settings and variables of the environment here, also between backticks."""


class NotANameError(ValueError):
    """A text can't be a name in SQL."""


def quoted(*parts: str) -> str:
    """A name, each part between backticks: Spark reads nothing in it as SQL.

    :raises NotANameError: for a part that is empty, or in which Spark would replace something
    """
    if wrong := [part for part in parts if not part or _REPLACED in part]:
        raise NotANameError(f"{wrong[0]!r} can't be a name in Spark's SQL: a name is not empty, and has no {_REPLACED}")
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def quoted_table(key: str, name: str) -> str:
    """The name of a table, as in ``catalog.schema.table``, quoted.

    :param key: where it stands in a config, for the error
    :param name: its parts have letters, digits, ``_`` and ``-``, or anything between backticks
    :raises NotANameError: for anything else
    """
    if not _TABLE.fullmatch(name) or _REPLACED in name:
        raise NotANameError(
            f"{key}: {name!r} is no table's name: its parts are separated by dots, as in lake.raw.orders, and have"
            f" letters, digits, _ and -, or between backticks anything but {_REPLACED}"
        )
    return quoted(*map(_bare, _PARTS.findall(name)))


def columns_of(fields: Iterable[StructField]) -> str:
    """Columns with their types, as in ``CREATE TABLE``.

    :raises NotANameError: for a column, or a field within one, that can't have its name
    """
    return ", ".join(f"{quoted(field.name)} {_type(field.dataType)}" for field in fields)


def _bare(part: str) -> str:
    return part[1:-1].replace("``", "`") if part.startswith("`") else part


def _type(kind: DataType) -> str:
    """Spark's own text of a type has the names of its fields as they are."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{quoted(field.name)}: {_type(field.dataType)}' for field in kind)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{_type(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{_type(kind.keyType)}, {_type(kind.valueType)}>"
    return kind.simpleString()
