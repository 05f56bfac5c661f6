"""Renders templates without changing what their author wrote."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator
from jinja2.nativetypes import NativeEnvironment, native_concat

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

_NO_TEXT: Final = frozenset({"after", "at_least", "config", "if_version", "max_tasks", "slots", "tasks", "workers"})
"""Parameters that are numbers, lists or JSON. The others are names, lists of names, and maps of texts."""
_NAMES: Final = frozenset(
    {
        "checkpoint_root",
        "entry_point",
        "group",
        "job",
        "kafka_conn_id",
        "run_key",
        "spark_conn_id",
        "spark_master",
        "worker",
    }
)
"""Parameters that are one text, whatever Python would read in it."""


class AsWritten(BaseOperator):
    """An operator or a sensor whose parameters are rendered like that.

    With ``render_template_as_native_obj`` Airflow reads each text as Python: the job ``2024_01`` would become 202401,
    and the version ``1.10`` would become 1.1. Here a text without a template stays as it is, and one that is rendered
    becomes a number only if that number is written like the text. A text in a map of them loses no quotes, and is not
    missing because it is the text ``None``. A name that is rendered as a text is that text.
    """

    _rendering = ""
    """The parameter that is being rendered."""
    _told: frozenset[str] = frozenset()
    """The parameters that another task has told this one, which is mapped over it."""

    def _do_render_template_fields(
        self,
        parent: Any,
        template_fields: Iterable[str],
        context: Context,
        jinja_env: jinja2.Environment,
        seen_oids: set[int],
    ) -> None:
        env = self._wished(jinja_env)
        if parent is self:
            self._told = frozenset(field for field in template_fields if id(getattr(self, field, None)) in seen_oids)
        for field in template_fields:
            self._rendering = field
            super()._do_render_template_fields(parent, (field,), context, env, seen_oids)

    def _wished(self, env: jinja2.Environment) -> jinja2.Environment:
        """Airflow 3.3 lets an operator have a wish of its own, but its task gets the environment of the DAG."""
        native = getattr(self, "render_template_as_native_obj", None)
        return env if native in (None, isinstance(env, NativeEnvironment)) else self.get_template_env()

    def render_template(
        self,
        content: Any,
        context: Context,
        jinja_env: jinja2.Environment | None = None,
        seen_oids: set[int] | None = None,
    ) -> Any:
        env = jinja_env or self.get_template_env()
        if isinstance(content, str):
            if not _may_be_template(content, env) or (seen_oids is not None and id(content) in seen_oids):
                return content  # what another task has told a mapped one is never a template
            if isinstance(env, NativeEnvironment):
                return self._read(_rendered_parts(env, content, context))
        return super().render_template(content, context, env, seen_oids)

    def _read(self, parts: list[Any]) -> Any:
        """What a template has rendered: a text, or what Python reads in it."""
        if not parts or (len(parts) == 1 and not isinstance(parts[0], str)):
            return native_concat(parts)  # it was never a text
        written = "".join(map(str, parts))
        if self._rendering in _NAMES:
            return written
        read = native_concat([written])
        if _is_number(read):
            return read if written.strip() == str(read) else written
        return written if self._rendering not in _NO_TEXT and (read is None or isinstance(read, str)) else read


def _may_be_template(content: str, env: jinja2.Environment) -> bool:
    """A DAG may have delimiters of its own; line statements begin with a line."""
    begins = [env.variable_start_string, env.block_start_string, env.comment_start_string]
    begins += filter(None, (env.line_statement_prefix, env.line_comment_prefix))
    return any(begin in content for begin in begins)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _rendered_parts(jinja_env: jinja2.Environment, content: str, context: Any) -> list[Any]:
    """The text around the expressions, and their values. Each is evaluated once, because a macro may have an effect."""
    template = jinja_env.from_string(content)
    # Not Template.render, which would read the whole context, with names that Airflow has deprecated.
    seen = copy.copy(context)
    seen.update((name, value) for name, value in template.globals.items() if name not in context)
    values = jinja_env.context_class(jinja_env, seen, template.name, template.blocks)
    try:
        return [*template.root_render_func(values)]
    except Exception:  # noqa: BLE001  it is raised again, with the line of the template
        jinja_env.handle_exception()
