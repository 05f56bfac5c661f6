"""What the page may do at all, as its administrator has configured it (``page_actions``)."""

from __future__ import annotations

from enum import Enum

from fastapi import HTTPException, status

from airflow_provider.integration.operator_parameters.parameters import choice


class PageActions(Enum):
    """What users with the rights to it can do on the page.

    :cvar NONE: nothing; they only look
    :cvar STEER: steer what is there: jobs, their tasks, workers, log levels
    :cvar ALL: submit and alter jobs, too, which decides what the workers run and with which config
    """

    NONE = "none"
    STEER = "steer"
    ALL = "all"


def configured_actions() -> PageActions:
    """:raises HTTPException: for another value: nobody may guess what was meant"""
    from airflow.configuration import conf

    configured = conf.get("cooperative_spark", "page_actions", fallback=PageActions.STEER.value)
    try:
        return choice("[cooperative_spark] page_actions", configured, PageActions)
    except ValueError as wrong:
        raise HTTPException(status.HTTP_500_INTERNAL_SERVER_ERROR, str(wrong)) from wrong
