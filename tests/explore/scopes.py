"""The scopes to search, and how many worlds each has."""

from __future__ import annotations

from explore.values import Fault, Scope

from airflow_provider.assignment.policy import IMMEDIATE
from airflow_provider.values.model import ConnectProtocol

_ALL = (
    Scope(name="calm", faults={}, worlds=1_971),
    Scope(name="takeover", faults={Fault.TAKEOVER: 1}, worlds=213_327),
    Scope(name="loss", faults={Fault.LOSS: 1}, worlds=177_504),
    Scope(name="late", faults={Fault.LATE: 1}, worlds=434_330),
    Scope(name="crash", faults={Fault.CRASH: 1}, worlds=600_686),
    Scope(name="leave", faults={Fault.LEAVE: 1}, worlds=479_187),
    Scope(name="pause", faults={Fault.PAUSE: 1}, worlds=2_117_335),
    Scope(name="immediate-crash", faults={Fault.CRASH: 1}, policy=IMMEDIATE, worlds=421_648),
    Scope(name="begun-losses", faults={Fault.LOSS: 2}, begun=2, worlds=17_409),
    Scope(name="begun-takeovers", faults={Fault.TAKEOVER: 2}, begun=2, worlds=8_552),
    Scope(name="begun-takeover-loss", faults={Fault.TAKEOVER: 1, Fault.LOSS: 1}, begun=2, worlds=15_735),
    Scope(name="begun-takeover-crash", faults={Fault.TAKEOVER: 1, Fault.CRASH: 1}, begun=2),
    Scope(name="begun-crash-loss", faults={Fault.CRASH: 1, Fault.LOSS: 1}, begun=2, worlds=1_079_181),
    Scope(name="learners", faults={}, protocol=ConnectProtocol.EXTENSIBLE, worlds=15_495),
    Scope(name="begun-learners-crash", faults={Fault.CRASH: 1}, protocol=ConnectProtocol.EXTENSIBLE, begun=1),
    Scope(name="begun-learners-leave", faults={Fault.LEAVE: 1}, protocol=ConnectProtocol.EXTENSIBLE, begun=1),
    Scope(name="begun-learners-loss", faults={Fault.LOSS: 1}, protocol=ConnectProtocol.EXTENSIBLE, begun=1),
)
SCOPES = {scope.name: scope for scope in _ALL}
"""By the names for ``make explore SCOPE=``."""
IN_TESTS = ("calm", "begun-takeover-loss", "learners")
IN_A_MINUTE = ("calm", "takeover", "loss", "begun-losses", "begun-takeovers", "begun-takeover-loss", "learners")
