"""Asset events for what a job has written, stored by the operator that waited for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider.integration.airflow_metadata.storable import storable
from airflow_provider.state.reports.assets import AssetReport
from airflow_provider.state.views.task_progress.progress import JobState

if TYPE_CHECKING:
    from airflow.sdk import Asset, BaseOperator, Context


def tell_assets(operator: BaseOperator, context: Context, group: str, report: Mapping[str, Any]) -> None:
    """Let Airflow store an asset event for each asset that a finished job has written, when the operator succeeds.

    An operator without outlets stores none, so a DAG's author chooses one of the operators that wait for a job. Nothing
    is stored for a job that has not finished, as it may still write.

    :param report: as a sensor returns it; that of an earlier release has no assets
    """
    if not operator.outlets or report.get("state") != JobState.FINISHED.value:
        return
    report = storable(dict(report))
    of_job = {"group": group, "job": report["job"], "run_key": report["run_key"]}
    declared: dict[int, AssetReport] = {}
    for written in map(AssetReport.from_json, report.get("assets", ())):
        asset = _asset_of(operator, written)
        if asset is None:
            continue
        place = _declared_as(operator, asset)
        if place is None:
            _tell_by_alias(operator, context, asset, {**_extra_of(written), **of_job})
        else:
            before = declared.get(place)
            declared[place] = written if before is None else before.with_those(written)
    for place, written in declared.items():
        context["outlet_events"][operator.outlets[place]].extra.update({**_extra_of(written), **of_job})


def _extra_of(written: AssetReport) -> dict[str, Any]:
    return {"rows": written.rows, "tasks": written.tasks}


def _asset_of(operator: BaseOperator, written: AssetReport) -> Asset | None:
    """The asset; None: Airflow refuses its name. This only warns, because the job has written it already."""
    from airflow.sdk import Asset

    try:
        return Asset(name=written.name, uri=written.uri)
    except ValueError as refused:
        operator.log.warning("No asset event for %r (%s): Airflow refuses it: %s", written.name, written.uri, refused)
        return None


def _declared_as(operator: BaseOperator, asset: Asset) -> int | None:
    """The index of the outlet with its name or its URI; None: there is none."""
    from airflow.sdk import AssetAlias

    for place, outlet in enumerate(operator.outlets):
        named = getattr(outlet, "name", None) == asset.name or getattr(outlet, "uri", None) == asset.uri
        if named and not isinstance(outlet, AssetAlias):
            return place
    return None


def _tell_by_alias(operator: BaseOperator, context: Context, asset: Asset, extra: dict[str, Any]) -> None:
    """Add the asset to each alias; Airflow stores one event for all of them."""
    from airflow.sdk import AssetAlias

    aliases = [outlet for outlet in operator.outlets if isinstance(outlet, AssetAlias)]
    for alias in aliases:
        context["outlet_events"][alias].add(asset, extra=extra)
    if not aliases:
        operator.log.warning(
            "No asset event for %r (%s): it is not among the outlets; add it, or an AssetAlias", asset.name, asset.uri
        )
