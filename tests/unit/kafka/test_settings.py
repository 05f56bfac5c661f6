"""A connection's extra as the settings of both clients: what is passed on, what is translated, what is refused."""

from __future__ import annotations

import contextlib
import ssl
from typing import Any

import pytest
from certificates import Certificates
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient

from airflow_provider.kafka.client_settings import risks
from airflow_provider.kafka.client_settings.ignored_settings import OWN_SETTINGS
from airflow_provider.kafka.settings import KafkaSettings, SettingsError

OURS = {"client.id": "cospark", "socket.timeout.ms": 15_000}
PLAIN = {"bootstrap.servers": "broker:9092"}
SASL = PLAIN | {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "alice",
    "sasl.password": "s3cret",
}
TLS = PLAIN | {"security.protocol": "SSL"}


def settings(extra: Any) -> KafkaSettings:
    return KafkaSettings.from_extra(extra, conn_id="kafka_default")


def context(extra: dict[str, Any]) -> ssl.SSLContext:
    made = settings(TLS | extra).aiokafka()["ssl_context"]
    assert isinstance(made, ssl.SSLContext)
    return made


def refused(extra: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        settings(extra).aiokafka()
    message = str(caught.value)
    assert "'kafka_default'" in message
    return message


def test_a_plain_connection() -> None:
    plain = settings(PLAIN)
    assert plain.librdkafka() == {"bootstrap.servers": "broker:9092"} | OURS
    assert plain.aiokafka() == {
        "bootstrap_servers": "broker:9092",
        "client_id": "cospark",
        "security_protocol": "PLAINTEXT",
        "request_timeout_ms": 30_000,
    }


def test_the_extra_as_it_is_stored_is_read_as_well() -> None:
    assert settings('{"bootstrap.servers": "broker:9092"}') == settings(PLAIN)


def test_several_servers_with_blanks_between_them() -> None:
    assert settings({"bootstrap.servers": " a:1, b:2 ,"}).bootstrap_servers == "a:1,b:2"


def test_servers_by_their_addresses() -> None:
    servers = "10.0.0.1:9092,[::1]:9093,[fe80::1%eth0]:1,::1,[::1],broker_1.example"
    assert settings({"bootstrap.servers": servers}).bootstrap_servers == servers


def test_what_librdkafka_alone_understands_is_passed_on() -> None:
    extra = PLAIN | {"client.id": "mine", "client.rack": "a", "socket.keepalive.enable": True}
    assert settings(extra).librdkafka() == OURS | extra
    assert settings(extra).aiokafka()["client_id"] == "mine"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transactional.id", "mine"),
        ("enable.idempotence", False),
        ("acks", "0"),
        ("request.required.acks", 0),
        ("retries", 0),
        ("max.in.flight", 100),
        ("message.timeout.ms", 5),
        ("delivery.report.only.error", True),
        ("group.id", "theirs"),
        ("group.protocol", "consumer"),
        ("group.instance.id", "mine"),
        ("enable.auto.commit", True),
        ("auto.offset.reset", "latest"),
        ("isolation.level", "read_uncommitted"),
        ("partition.assignment.strategy", "cooperative-sticky"),
        ("session.timeout.ms", 6_000),
        ("topic.blacklist", ".*"),
    ],
)
def test_how_others_read_and_write_over_a_connection_is_ignored(name: str, value: str | int | bool) -> None:
    """A connection may be shared with the hooks of others. Here, such a setting would break the clients."""
    assert settings(PLAIN | {name: value}).librdkafka() == settings(PLAIN).librdkafka()


@pytest.mark.parametrize("name", sorted(OWN_SETTINGS))
def test_what_is_ignored_is_spelled_as_librdkafka_does(name: str) -> None:
    why = ""
    try:
        Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0, name: "?"}).close()
    except (KafkaException, TypeError, ValueError) as refused:
        why = str(refused)
    assert "No such configuration property" not in why


def test_timeouts_are_translated() -> None:
    patient = settings(PLAIN | {"socket.timeout.ms": "45000", "socket.connection.setup.timeout.ms": 2_000})
    assert patient.aiokafka()["request_timeout_ms"] == 45_000
    assert patient.connect_timeout_ms == 2_000
    assert patient.librdkafka()["socket.timeout.ms"] == "45000"


def test_python_callbacks_of_the_other_provider_are_left_out() -> None:
    assert settings(PLAIN | {"error_cb": "my.module.on_error"}) == settings(PLAIN)


def test_sasl_for_both() -> None:
    sasl = settings(SASL)
    assert sasl.librdkafka() == SASL | OURS
    translated = sasl.aiokafka()
    assert translated["security_protocol"] == "SASL_PLAINTEXT"
    assert translated["sasl_mechanism"] == "SCRAM-SHA-512"
    assert (translated["sasl_plain_username"], translated["sasl_plain_password"]) == ("alice", "s3cret")


def test_librdkafkas_other_spellings() -> None:
    spelled = SASL | {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "scram-sha-256"}
    del spelled["sasl.mechanism"]
    assert settings(spelled).aiokafka()["sasl_mechanism"] == "SCRAM-SHA-256"


def test_no_secret_is_shown() -> None:
    assert repr(settings(SASL)) == (
        "KafkaSettings(conn_id='kafka_default', bootstrap_servers='broker:9092', security_protocol='SASL_PLAINTEXT')"
    )


def test_the_same_settings_are_equal_and_can_be_a_key() -> None:
    assert {settings(SASL): 1}[settings(dict(reversed(SASL.items())))] == 1
    assert settings(SASL) != settings(SASL | {"sasl.password": "other"})


def test_librdkafka_accepts_what_it_is_given() -> None:
    # A client is made without connecting; unknown or wrong settings would raise.
    AdminClient(settings(SASL | {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}).librdkafka())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "key", "advice"),
    [
        (None, "bootstrap.servers", "is missing: add"),
        ("", "bootstrap.servers", "is missing"),
        ({}, "bootstrap.servers", "is missing"),
        ({"bootstrap.servers": " , "}, "bootstrap.servers", "is missing"),
        ({"bootstrap.servers": 9092}, "bootstrap.servers", "must be a string, not a number"),
        ({"bootstrap.servers": ["a:1"]}, "bootstrap.servers", "not an array"),
        ({"bootstrap.servers": "a:1,b:port"}, "bootstrap.servers", "'b:port' must have the shape host:port"),
        ({"bootstrap.servers": "http://a:9092/"}, "bootstrap.servers", "host:port"),
        ({"bootstrap.servers": "SSL://a:9092"}, "bootstrap.servers", "host:port"),
        ({"bootstrap.servers": "a:1;b:2"}, "bootstrap.servers", "host:port"),
        ({"bootstrap.servers": "a:1 b:2"}, "bootstrap.servers", "host:port"),
        ({"bootstrap.servers": "[::1:9092"}, "bootstrap.servers", "host:port"),
        ({"bootstrap.servers": "a:65536"}, "bootstrap.servers", "host:port"),
        (PLAIN | {"linger.ms": None}, "linger.ms", "not null"),
        (PLAIN | {"security.protocol": "TLS"}, "security.protocol", "SASL_SSL"),
        (PLAIN | {"socket.timeout.ms": "soon"}, "socket.timeout.ms", "a number of milliseconds"),
        (PLAIN | {"socket.timeout.ms": 0}, "socket.timeout.ms", "positive"),
        (SASL | {"sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism", "OAUTHBEARER is not supported for groups"),
        (
            {"bootstrap.servers": "b:1", "sasl.mechanism": "PLAIN"},
            "security.protocol",
            "is missing, so sasl.mechanism would be ignored",
        ),
        (SASL | {"sasl.mechanism": ""}, "sasl.mechanism", "GSSAPI is not supported for groups"),
        (SASL | {"sasl.password": ""}, "sasl.password", "is missing"),
        (SASL | {"sasl.username": 7}, "sasl.username", "must be a string"),
        (TLS | {"ssl.keystore.location": "/k.p12"}, "ssl.keystore.location", "PEM files"),
        (TLS | {"ssl.from.tomorrow": "x"}, "ssl.from.tomorrow", "remove the setting"),
        (TLS | {"ssl.ca.location": "/no/such.pem"}, "ssl.ca.location", "/no/such.pem: No such file"),
        (TLS | {"ssl.ca.pem": "rubbish"}, "ssl.ca.pem", "not a certificate"),
        (TLS | {"ssl.key.pem": "rubbish"}, "ssl.certificate.location", "is missing"),
        (TLS | {"ssl.certificate.pem": "rubbish"}, "ssl.certificate.location", "not a certificate"),
        (TLS | {"ssl.certificate.location": "/no/such.pem"}, "ssl.certificate.location", "no such file"),
        (TLS | {"ssl.cipher.suites": "ROT13"}, "ssl.cipher.suites", "does not know any of these"),
        (TLS | {"enable.ssl.certificate.verification": "maybe"}, "enable.ssl.certificate", "true or false"),
        (TLS | {"ssl.endpoint.identification.algorithm": "ldaps"}, "ssl.endpoint", "https or none"),
    ],
)
def test_what_cannot_work_is_refused_by_its_key(extra: Any, key: str, advice: str) -> None:
    message = refused(extra)
    assert key in message
    assert advice in message


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("plugin.library.paths", "loads native code"),
        ("ssl.engine.location", "loads native code"),
        ("ssl.engine.id", "loads native code"),
        ("ssl.providers", "loads native code"),
        ("sasl.kerberos.kinit.cmd", "runs a program"),
        ("sasl.oauthbearer.method", "sends requests to any server"),
        ("sasl.oauthbearer.token.endpoint.url", "sends requests to any server"),
        ("sasl.oauthbearer.assertion.private.key.file", "sends requests to any server"),
        ("offset.store.path", "writes files"),
        ("offset.store.method", "writes files"),
        ("internal.termination.signal", "signal"),
    ],
)
@pytest.mark.parametrize("connection", [PLAIN, TLS, SASL], ids=["PLAINTEXT", "SSL", "SASL_PLAINTEXT"])
def test_a_connection_loads_no_code_runs_no_program_and_writes_no_file(
    connection: dict[str, Any], key: str, what: str
) -> None:
    message = refused(connection | {key: "/tmp/x"})
    assert f"{key}: " in message
    assert what in message
    assert "remove the setting" in message
    assert settings(connection | {key: ""}).librdkafka().keys() == settings(connection).librdkafka().keys()


@pytest.mark.parametrize(
    ("first", "second", "one", "other"),
    [
        ("sasl.mechanism", "sasl.mechanisms", "SCRAM-SHA-512", "GSSAPI"),
        ("sasl.mechanism", "sasl.mechanisms", "PLAIN", "OAUTHBEARER"),
        ("bootstrap.servers", "metadata.broker.list", "broker:9092", "elsewhere:9092"),
    ],
)
def test_two_names_of_one_setting_must_say_the_same(first: str, second: str, one: str, other: str) -> None:
    """What is checked here would not be what librdkafka does: it takes the last one."""
    assert "another name of" in refused(SASL | {first: one, second: other})
    assert settings(SASL | {first: one, second: one})


@pytest.mark.parametrize("extra", ["not json", "[1]", '"text"', [], 7])
def test_an_extra_that_is_no_json_object(extra: Any) -> None:
    assert '{"bootstrap.servers": "host:9092"}' in refused(extra)


def test_a_refusal_shows_no_secret(certificates: Certificates) -> None:
    wrong = TLS | {
        "ssl.certificate.location": str(certificates.client),
        "ssl.key.location": str(certificates.client_key),
        "ssl.key.password": "wr0ng-password",
    }
    message = refused(wrong)
    assert "ssl.key.password is wrong" in message
    assert "wr0ng-password" not in message
    assert "s3cret" not in refused(SASL | {"sasl.mechanism": "GSSAPI"})


def test_tls_verifies_by_default() -> None:
    default = context({})
    assert default.verify_mode is ssl.CERT_REQUIRED
    assert default.check_hostname


@pytest.mark.slow
def test_tls_verifies_less_only_when_told_so() -> None:
    without_name = context({"ssl.endpoint.identification.algorithm": "none"})
    assert (without_name.verify_mode, without_name.check_hostname) == (ssl.CERT_REQUIRED, False)
    without_anything = context({"enable.ssl.certificate.verification": "false"})
    assert (without_anything.verify_mode, without_anything.check_hostname) == (ssl.CERT_NONE, False)
    assert context({"enable.ssl.certificate.verification": False}).verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(
    ("extra", "setting"),
    [
        (TLS | {"enable.ssl.certificate.verification": "false"}, "enable.ssl.certificate.verification=false"),
        (TLS | {"ssl.endpoint.identification.algorithm": "none"}, "ssl.endpoint.identification.algorithm=none"),
        (SASL, "security.protocol=SASL_PLAINTEXT"),
        (SASL | {"sasl.mechanism": "PLAIN"}, "security.protocol=SASL_PLAINTEXT"),
    ],
)
def test_what_others_on_the_network_can_read_or_change_is_warned_of_once_by_its_name(
    extra: dict[str, Any], setting: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(risks, "_SAID", set())
    for _ in range(2):  # as often as a triggerer reads its connections
        settings(extra)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith(f"connection 'kafka_default': {setting}: ")
    assert "s3cret" not in warning
    assert ("read the password" in warning) == (extra.get("sasl.mechanism") == "PLAIN")


@pytest.mark.parametrize("extra", [PLAIN, TLS, SASL | {"security.protocol": "SASL_SSL"}])
def test_what_keeps_what_it_promises_is_not_warned_of(
    extra: dict[str, Any], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(risks, "_SAID", set())
    settings(extra)
    assert not caplog.records


def test_the_authority_can_be_a_file_or_stand_in_the_extra(certificates: Certificates) -> None:
    from_file = context({"ssl.ca.location": str(certificates.authority)}).get_ca_certs()
    from_extra = context({"ssl.ca.pem": certificates.authority.read_text()}).get_ca_certs()
    assert [each["subject"] for each in from_file] == [((("commonName", "authority"),),)]
    assert from_extra == from_file


def shake_hands(client: ssl.SSLContext, certificates: Certificates) -> None:
    """With a broker that has the certificate of these."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificates.broker, certificates.broker_key)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in tuple(ends):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
                ends.remove(end)


def test_a_broker_whose_certificate_is_revoked_is_not_trusted(certificates: Certificates) -> None:
    trusting = {"ssl.ca.location": str(certificates.authority)}
    shake_hands(context(trusting), certificates)
    with pytest.raises(ssl.SSLCertVerificationError, match="revoked"):
        shake_hands(context({**trusting, "ssl.crl.location": str(certificates.revoked)}), certificates)


@pytest.mark.slow
def test_the_key_can_be_a_file_or_stand_in_the_extra(certificates: Certificates) -> None:
    context(
        {
            "ssl.certificate.location": str(certificates.client),
            "ssl.key.location": str(certificates.client_key),
            "ssl.key.password": certificates.key_password,
        }
    )
    context(
        {
            "ssl.certificate.pem": certificates.client.read_text(),
            "ssl.key.pem": certificates.client_key.read_text(),
            "ssl.key.password": certificates.key_password,
        }
    )
