"""A certificate authority for tests, with a certificate for a broker on the loopback address and one for a client."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Files in PEM form. The client's key is encrypted with ``key_password``; the others are not."""

    authority: Path
    stranger: Path
    """An unrelated authority, which signed none of these certificates."""
    revoked: Path
    """The authority's list of revoked certificates: the broker's is on it."""
    broker: Path
    broker_key: Path
    client: Path
    client_key: Path
    key_password: str


def make_certificates(folder: Path) -> Certificates:
    authority_key, stranger_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _certificate("authority", authority_key, None, authority_key)
    files = Certificates(
        authority=folder / "ca.pem",
        stranger=folder / "stranger.pem",
        revoked=folder / "revoked.pem",
        broker=folder / "broker.pem",
        broker_key=folder / "broker.key",
        client=folder / "client.pem",
        client_key=folder / "client.key",
        key_password="opens-the-key",
    )
    _write(files.authority, authority)
    _write(files.stranger, _certificate("stranger", stranger_key, None, stranger_key))
    for name, certificate, key_file in (
        ("broker", files.broker, files.broker_key),
        ("client", files.client, files.client_key),
    ):
        key = ec.generate_private_key(ec.SECP256R1())
        signed = _certificate(name, key, authority, authority_key)
        _write(certificate, signed)
        if name == "broker":
            _write(files.revoked, _revocation(signed, authority_key))
        encryption: serialization.KeySerializationEncryption = (
            serialization.BestAvailableEncryption(files.key_password.encode())
            if name == "client"
            else serialization.NoEncryption()
        )
        key_file.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        )
    return files


def _write(path: Path, signed: x509.Certificate | x509.CertificateRevocationList) -> None:
    path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))


def _revocation(
    certificate: x509.Certificate, issuer_key: ec.EllipticCurvePrivateKey
) -> x509.CertificateRevocationList:
    now = dt.datetime.now(dt.timezone.utc)
    revoked = x509.RevokedCertificateBuilder().serial_number(certificate.serial_number).revocation_date(now).build()
    return (
        x509.CertificateRevocationListBuilder()
        .issuer_name(certificate.issuer)
        .last_update(now - dt.timedelta(hours=1))
        .next_update(now + dt.timedelta(days=1))
        .add_revoked_certificate(revoked)
        .sign(issuer_key, hashes.SHA256())
    )


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.timezone.utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if issuer is not None:
        loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        builder = builder.add_extension(x509.SubjectAlternativeName([loopback]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())
