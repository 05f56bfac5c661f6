"""Converts librdkafka's ``ssl.*`` settings to Python's ``SSLContext``."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from airflow_provider.kafka.client_settings.risks import Risk

Value = str | int | float | bool
Config = Mapping[str, Value]
"""The settings that have a value."""
Refuse = Callable[[str, str], Exception]
"""Makes the error for a setting, from its key and the problem."""

_SUPPORTED: Final = frozenset(
    {
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.cipher.suites",
        "ssl.crl.location",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
    }
)
_INSTEAD: Final = {
    "ssl.keystore.location": "give PEM files in ssl.certificate.location and ssl.key.location instead",
    "ssl.keystore.password": "give PEM files in ssl.certificate.location and ssl.key.location instead",
    "ssl.ca.certificate.stores": "name a PEM file in ssl.ca.location instead",
}
_TRUE: Final = frozenset({"true", "1", "t", "yes"})
_FALSE: Final = frozenset({"false", "0", "f", "no"})


def refuse_unsupported_tls(config: Config, refuse: Refuse) -> None:
    """Refuse settings that only librdkafka supports."""
    for key in config:
        if key.startswith("ssl.") and key not in _SUPPORTED:
            raise refuse(key, f"is not supported for groups: {_INSTEAD.get(key, 'remove the setting')}")
    _verifies_certificate(config, refuse)
    _verifies_name(config, refuse)


def risks_of_tls(config: Config, refuse: Refuse) -> Iterator[Risk]:
    """What is not verified."""
    if not _verifies_certificate(config, refuse):
        yield Risk(
            "enable.ssl.certificate.verification=false",
            "whoever is between here and the brokers can pretend to be one, read and change everything, also passwords",
        )
    elif not _verifies_name(config, refuse):
        yield Risk(
            "ssl.endpoint.identification.algorithm=none",
            "whoever has any certificate of the same authority can pretend to be a broker",
        )


def build_ssl_context(config: Config, refuse: Refuse) -> ssl.SSLContext:
    """The context for these settings. It behaves like librdkafka with the same settings."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = _verifies_certificate(config, refuse) and _verifies_name(config, refuse)
    context.verify_mode = ssl.CERT_REQUIRED if _verifies_certificate(config, refuse) else ssl.CERT_NONE
    _trust(context, config, refuse)
    _identify(context, config, refuse)
    ciphers = config.get("ssl.cipher.suites")
    if ciphers is not None:
        try:
            context.set_ciphers(str(ciphers))
        except ssl.SSLError:
            raise refuse("ssl.cipher.suites", "OpenSSL does not know any of these cipher suites") from None
    return context


def _trust(context: ssl.SSLContext, config: Config, refuse: Refuse) -> None:
    pem, location = config.get("ssl.ca.pem"), config.get("ssl.ca.location")
    if pem is not None:
        try:
            context.load_verify_locations(cadata=str(pem))
        except (ssl.SSLError, ValueError):
            raise refuse("ssl.ca.pem", "is not a certificate in PEM format") from None
    elif location is not None and location != "probe":
        _load_authorities(context, Path(str(location)), "ssl.ca.location", refuse)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    revoked = config.get("ssl.crl.location")
    if revoked is not None:
        _load_authorities(context, Path(str(revoked)), "ssl.crl.location", refuse)
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF


def _load_authorities(context: ssl.SSLContext, path: Path, key: str, refuse: Refuse) -> None:
    try:
        if path.is_dir():
            context.load_verify_locations(capath=str(path))
        else:
            context.load_verify_locations(cafile=str(path))
    except OSError as error:  # ssl.SSLError is one
        raise refuse(key, f"{path}: {_reason(error, 'has no certificate in PEM format')}") from None


def _identify(context: ssl.SSLContext, config: Config, refuse: Refuse) -> None:
    """Load the client's certificate and key, each from a file or from the setting itself."""
    with tempfile.TemporaryDirectory(prefix="cospark-") as folder:  # only this user can read it
        certificate = _as_file(config, "ssl.certificate", Path(folder), refuse)
        key = _as_file(config, "ssl.key", Path(folder), refuse)
        if certificate is None:
            if key is not None:
                raise refuse("ssl.certificate.location", "is missing, and a key was given")
            return
        password = config.get("ssl.key.password")
        try:
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(certificate, key, password=lambda: "" if password is None else str(password))
        except OSError as error:
            problem = _reason(error, "is not a certificate with its key in PEM format, or ssl.key.password is wrong")
            raise refuse("ssl.certificate.location", problem) from None


def _as_file(config: Config, name: str, folder: Path, refuse: Refuse) -> Path | None:
    location, pem = config.get(f"{name}.location"), config.get(f"{name}.pem")
    if pem is not None:
        path = folder / name
        path.write_text(str(pem))
        return path
    if location is not None and not Path(str(location)).is_file():
        raise refuse(f"{name}.location", f"{location}: no such file")
    return None if location is None else Path(str(location))


def _verifies_certificate(config: Config, refuse: Refuse) -> bool:
    value = config.get("enable.ssl.certificate.verification")
    text = "true" if value is None else str(value).lower()
    if text not in _TRUE | _FALSE:
        raise refuse("enable.ssl.certificate.verification", "must be true or false")
    return text in _TRUE


def _verifies_name(config: Config, refuse: Refuse) -> bool:
    algorithm = str(config.get("ssl.endpoint.identification.algorithm") or "https").lower()
    if algorithm not in ("https", "none"):
        raise refuse("ssl.endpoint.identification.algorithm", "must be https or none")
    return algorithm == "https"


def _reason(error: OSError, otherwise: str) -> str:
    return otherwise if isinstance(error, ssl.SSLError) else (error.strerror or otherwise)
