"""A local broker that lets nobody in without TLS and a password, and nobody do what was not granted to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256")
_BROKER: Final = "the-broker-itself"
_JAAS: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSecurity:
    """Who may connect to a local broker, and who may do everything there.

    Clients speak SASL_SSL, with SCRAM. The broker's own listeners take only who has a certificate of the authority.
    What a user may do is granted by ACLs, by the administrator; without any, nothing.

    :param authority: the certificate that signed ``certificate``, as a PEM file; it should sign nothing else
    :param certificate: the broker's, for the address 127.0.0.1
    :param key: of the certificate, not encrypted
    :param users: passwords by user name: letters, digits, ``-``, ``_`` and ``.``
    :param administrator: the user who may do everything
    """

    authority: Path
    certificate: Path
    key: Path
    users: Mapping[str, str] = field(repr=False)
    administrator: str

    security_protocol: str = field(default="SASL_SSL", init=False)

    def properties(self) -> dict[str, object]:
        """What ``server.properties`` needs for it."""
        mechanisms: dict[str, object] = {
            f"listener.name.client.{mechanism.lower()}.sasl.jaas.config": _JAAS for mechanism in _MECHANISMS
        }
        return {
            **mechanisms,
            "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": self.certificate.read_text(),
            "ssl.keystore.key": self.key.read_text(),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.authority.read_text(),
            "listener.name.internal.ssl.client.auth": "required",
            "listener.name.controller.ssl.client.auth": "required",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{self.administrator};User:{_BROKER}",
            "ssl.principal.mapping.rules": f"RULE:^.*$/{_BROKER}/",
            "allow.everyone.if.no.acl.found": False,
        }

    def format_arguments(self) -> Iterator[str]:
        """The users, for ``StorageTool format``."""
        for name, password in self.users.items():
            for mechanism in _MECHANISMS:
                yield from ("--add-scram", f'{mechanism}=[name="{name}",password="{password}"]')
