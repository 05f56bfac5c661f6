"""Replies that refuse a request."""

from __future__ import annotations

from airflow_provider.declarative.model import JOINING
from airflow_provider.declarative.wire.apis import ReplyBody, RequestBody
from airflow_provider.declarative.wire.heartbeat import ConnectGroupHeartbeatRequest, ConnectGroupHeartbeatResponse
from airflow_provider.declarative.wire.install_assignment import ConnectGroupInstallAssignmentResponse
from airflow_provider.declarative.wire.prepare_assignment import (
    ConnectGroupPrepareAssignmentRequest,
    ConnectGroupPrepareAssignmentResponse,
)
from airflow_provider.protocol.error_codes import KafkaErrorCode


def refusal(request: RequestBody, error: KafkaErrorCode, message: str) -> ReplyBody:
    """The reply to this request that says no more than why there is none."""
    if isinstance(request, ConnectGroupHeartbeatRequest):
        return heartbeat_refusal(error, message)
    if isinstance(request, ConnectGroupPrepareAssignmentRequest):
        return ConnectGroupPrepareAssignmentResponse(error_code=error, error_message=message)
    return ConnectGroupInstallAssignmentResponse(error_code=error, error_message=message)


def heartbeat_refusal(error: KafkaErrorCode, message: str) -> ConnectGroupHeartbeatResponse:
    return ConnectGroupHeartbeatResponse(
        error_code=error, error_message=message, member_epoch=JOINING, heartbeat_interval_ms=0
    )
