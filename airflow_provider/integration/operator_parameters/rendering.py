"""Renders templates without changing what their author wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context


class AsWritten(BaseOperator):
    """An operator or a sensor whose parameters are rendered like that.

    With ``render_template_as_native_obj`` Airflow reads each text as Python: the job ``2024_01`` would become 202401,
    and the version ``1.10`` would become 1.1. Here a text without a template stays as it is, and one that is rendered
    becomes a number only if that number is written like the text.
    """

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
        if not isinstance(content, str) or not isinstance(rendered, (int, float)) or isinstance(rendered, bool):
            return rendered
        written = _written(env, content, context)
        return rendered if written.strip() == str(rendered) else written


def _may_be_template(content: str, env: jinja2.Environment) -> bool:
    """A DAG may have delimiters of its own; line statements begin with a line."""
    begins = [env.variable_start_string, env.block_start_string, env.comment_start_string]
    begins += filter(None, (env.line_statement_prefix, env.line_comment_prefix))
    return any(begin in content for begin in begins)


def _written(jinja_env: jinja2.Environment, content: str, context: Any) -> str:
    template = jinja_env.from_string(content)
    # Not Template.render, which would read the whole context, with names that Airflow has deprecated.
    values = jinja_env.context_class(jinja_env, context, template.name, template.blocks)
    return "".join(map(str, template.root_render_func(values)))
