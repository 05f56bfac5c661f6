"""Renders templates without changing what their author wrote."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator
from jinja2.nativetypes import NativeEnvironment

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

_NO_TEXT: Final = frozenset({"after", "at_least", "config", "if_version", "max_tasks", "slots", "tasks", "workers"})
"""Parameters that are numbers, lists or JSON. The others are names, lists of names, and maps of texts."""


class AsWritten(BaseOperator):
    """An operator or a sensor whose parameters are rendered like that.

    With ``render_template_as_native_obj`` Airflow reads each text as Python: the job ``2024_01`` would become 202401,
    and the version ``1.10`` would become 1.1. Here a text without a template stays as it is, and one that is rendered
    becomes a number only if that number is written like the text. A name, or a text in a map of them, loses no quotes,
    and is not missing because it is the text ``None``.
    """

    _rendering = ""
    """The parameter that is being rendered."""

    def _do_render_template_fields(
        self,
        parent: Any,
        template_fields: Iterable[str],
        context: Context,
        jinja_env: jinja2.Environment,
        seen_oids: set[int],
    ) -> None:
        for field in template_fields:
            self._rendering = field
            super()._do_render_template_fields(parent, (field,), context, jinja_env, seen_oids)

    def render_template(
        self,
        content: Any,
        context: Context,
        jinja_env: jinja2.Environment | None = None,
        seen_oids: set[int] | None = None,
    ) -> Any:
        env = jinja_env or self.get_template_env()
        if isinstance(content, str) and not _may_be_template(content, env):
            return content
        rendered = super().render_template(content, context, jinja_env, seen_oids)
        if rendered is content:
            return content  # what another task has told a mapped one is never a template
        if not isinstance(content, str) or not isinstance(env, NativeEnvironment) or not self._may_be_misread(rendered):
            return rendered
        parts = _rendered_parts(env, content, context)
        if not parts or (len(parts) == 1 and not isinstance(parts[0], str)):
            return rendered  # it was never a text
        written = "".join(map(str, parts))
        return rendered if written.strip() == str(rendered) and _is_number(rendered) else written

    def _may_be_misread(self, rendered: object) -> bool:
        return _is_number(rendered) or (
            self._rendering not in _NO_TEXT and (rendered is None or isinstance(rendered, str))
        )


def _may_be_template(content: str, env: jinja2.Environment) -> bool:
    """A DAG may have delimiters of its own; line statements begin with a line."""
    begins = [env.variable_start_string, env.block_start_string, env.comment_start_string]
    begins += filter(None, (env.line_statement_prefix, env.line_comment_prefix))
    return any(begin in content for begin in begins)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _rendered_parts(jinja_env: jinja2.Environment, content: str, context: Any) -> list[Any]:
    """The text around the expressions, and their values."""
    template = jinja_env.from_string(content)
    # Not Template.render, which would read the whole context, with names that Airflow has deprecated.
    values = jinja_env.context_class(jinja_env, context, template.name, template.blocks)
    return [*template.root_render_func(values)]
