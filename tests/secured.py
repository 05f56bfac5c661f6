"""A broker with TLS, passwords and ACLs, and the table of rights in ``docs/security.md`` that the tests check."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from certificates import Certificates
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from waiting import DEADLINE_S

from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.servers.security import BrokerSecurity

PAGE = Path(__file__).parents[1] / "docs" / "security.md"
ADMIN = "admin"
_ROW = re.compile(r"\| ([A-Z]+) \| (group|topic) `etl([a-z.]*)` \| ([a-z, ]+) \|")
_ANY: Any = None  # which the stubs do not know
_ANY_ACL = AclBindingFilter(
    ResourceType.ANY,
    _ANY,
    ResourcePatternType.ANY,
    _ANY,
    _ANY,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


@dataclass(frozen=True, slots=True)
class PageRight:
    """A right as the page lists it; ``suffix`` follows the group's name."""

    operation: str
    resource: str
    suffix: str

    def name(self, group: str) -> str:
        return f"{group}{self.suffix}"

    def __str__(self) -> str:
        return f"{self.operation}-{self.resource}{self.suffix}"


def rights_on_the_page() -> dict[str, tuple[PageRight, ...]]:
    """The rights that each role needs, as the page lists them."""
    rights: dict[str, tuple[PageRight, ...]] = {}
    for operation, resource, suffix, roles in _ROW.findall(PAGE.read_text()):
        for role in roles.split(", "):
            rights[role] = (*rights.get(role, ()), PageRight(operation, resource, suffix))
    return rights


class SecuredBroker:
    """A running secured broker, with the users' passwords."""

    def __init__(self, broker: LocalBroker, certificates: Certificates, passwords: dict[str, str]) -> None:
        self.broker = broker
        self.certificates = certificates
        self.passwords = passwords

    def extra(self, user: str, **other: object) -> dict[str, object]:
        """The extra of this user's connection."""
        return {
            "bootstrap.servers": self.broker.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": self.passwords[user],
            "ssl.ca.location": str(self.certificates.authority),
            **other,
        }

    def settings(self, user: str, **other: object) -> KafkaSettings:
        return KafkaSettings.from_extra(self.extra(user, **other), conn_id="secured")

    def allow(self, rights: Iterable[tuple[str, PageRight, str]]) -> None:
        """Grant users rights in groups; returns when they are in effect."""
        acls = [
            AclBinding(
                ResourceType[right.resource.upper()],
                right.name(group),
                ResourcePatternType.LITERAL,
                f"User:{user}",
                "*",
                AclOperation[right.operation],
                AclPermissionType.ALLOW,
            )
            for user, right, group in rights
        ]
        grant(self.settings(ADMIN), acls)


def grant(administrator: KafkaSettings, acls: Collection[AclBinding]) -> None:
    """Returns when the ACLs are in effect."""
    admin = AdminClient(administrator.librdkafka())
    for done in admin.create_acls([*acls]).values():
        done.result(DEADLINE_S)
    deadline = time.monotonic() + DEADLINE_S
    while not set(acls) <= set(admin.describe_acls(_ANY_ACL).result(DEADLINE_S)):
        assert time.monotonic() < deadline, "the ACLs have not arrived"
        time.sleep(0.05)


@contextmanager
def secured_broker(
    certificates: Certificates,
    users: Iterable[str] | Mapping[str, str],
    *,
    properties: Mapping[str, object] | None = None,
) -> Iterator[SecuredBroker]:
    """:param users: names, or passwords by name
    :param properties: further broker settings
    """
    known = users if isinstance(users, Mapping) else {}
    passwords = {user: secrets.token_urlsafe(24) for user in (ADMIN, *users)} | dict(known)
    security = BrokerSecurity(
        authority=certificates.authority,
        certificate=certificates.broker,
        key=certificates.broker_key,
        users=passwords,
        administrator=ADMIN,
    )
    with LocalBroker(security=security, properties=properties, start_timeout_s=DEADLINE_S) as broker:
        yield SecuredBroker(broker, certificates, passwords)
