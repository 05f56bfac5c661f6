"""Renders templates without changing what their author wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

_BEGINS_TEMPLATE: Final = ("{{", "{%", "{#")


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
        if isinstance(content, str) and not any(begins in content for begins in _BEGINS_TEMPLATE):
            return content
        rendered = super().render_template(content, context, jinja_env, seen_oids)
        if not isinstance(content, str) or not isinstance(rendered, (int, float)) or isinstance(rendered, bool):
            return rendered
        written = _written(jinja_env or self.get_template_env(), content, context)
        return rendered if written.strip() == str(rendered) else written


def _written(jinja_env: jinja2.Environment, content: str, context: Any) -> str:
    template = jinja_env.from_string(content)
    # Not Template.render, which would read the whole context, with names that Airflow has deprecated.
    values = jinja_env.context_class(jinja_env, context, template.name, template.blocks)
    return "".join(map(str, template.root_render_func(values)))
