"""What is asked of Kubernetes, and with which credentials; with a stand-in for its API server."""

from __future__ import annotations

import json
import ssl
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from certificates import make_certificates
from fake_kubernetes import FAILED, RUNNING, SUCCEEDED, Answer, FakeKubernetes, api_server, pod_of, write_kubeconfig

from airflow_provider.spark.submit.detached import ClusterRefusesError, ClusterSilentError, DriverState
from airflow_provider.spark.submit.kubernetes import Kubernetes, NoKubernetesError, kubernetes_here

TAG = "cospark-1a"
NAMESPACE = {"spark.kubernetes.namespace": "etl"}
NOBODY = "k8s://http://127.0.0.1:1"


@pytest.fixture
def server() -> Iterator[FakeKubernetes]:
    with api_server() as server:
        yield server


@pytest.fixture
def kubernetes(server: FakeKubernetes) -> Kubernetes:
    return reached(server)


def reached(server: FakeKubernetes, **environment: str) -> Kubernetes:
    return kubernetes_here(f"k8s://{server.address}", NAMESPACE, environment)


def submit(server: FakeKubernetes, settings: Mapping[str, str], *, whole: bool = True) -> str:
    """As ``spark-submit`` does.

    :param whole: it is not killed after it has made the pod
    """
    pod = pod_of(settings, "conf-map")
    code, _pod = server.answer("POST", "/api/v1/namespaces/etl/pods", _bytes(pod), "")
    assert code == 201
    if whole:
        conf_map = {"metadata": {"name": "conf-map"}, "data": {}}
        server.answer("PATCH", "/api/v1/namespaces/etl/configmaps/conf-map", _bytes(conf_map), "")
    return str(pod["metadata"]["name"])


def _bytes(value: Any) -> bytes:
    return json.dumps(value).encode()


def shown(server: FakeKubernetes) -> set[str]:
    return {credentials for _method, _path, credentials in server.asked}


def test_drivers_are_found_by_their_tag(server: FakeKubernetes, kubernetes: Kubernetes) -> None:
    assert kubernetes.find(TAG) == []
    name = submit(server, kubernetes.settings(TAG))
    submit(server, kubernetes.settings("cospark-2b"))
    (found,) = kubernetes.find(TAG)
    assert (found.id, found.state) == (f"etl:{name}", DriverState.RUNS)
    assert kubernetes.look(found.id) == found
    server.becomes(name, SUCCEEDED)
    assert [driver.state for driver in kubernetes.find(TAG)] == [DriverState.SUCCEEDED]


def test_one_of_another_namespace_is_none_of_them(server: FakeKubernetes, kubernetes: Kubernetes) -> None:
    submit(server, kubernetes.settings(TAG))
    assert kubernetes_here(f"k8s://{server.address}", {}, {}).find(TAG) == []


def test_who_submits_at_the_same_time_chooses_the_same_name_and_the_next_try_another_one(
    server: FakeKubernetes, kubernetes: Kubernetes
) -> None:
    other = reached(server)
    assert kubernetes.find(TAG) == other.find(TAG) == []
    settings = kubernetes.settings(TAG)
    assert settings == other.settings(TAG), "so Kubernetes takes one of them"
    assert settings["spark.kubernetes.namespace"] == "etl"
    name = submit(server, settings)
    server.becomes(name, FAILED)
    assert [driver.state for driver in other.find(TAG)] == [DriverState.FAILED]
    submit(server, other.settings(TAG))
    assert server.names() == [f"{TAG}-1", f"{TAG}-2"]
    server.vanishes(f"{TAG}-1")
    other.find(TAG)
    assert other.settings(TAG)["spark.kubernetes.driver.pod.name"] == f"{TAG}-3"


def test_whoever_asks_for_settings_first_gets_those_of_the_next_try_too(
    server: FakeKubernetes, kubernetes: Kubernetes
) -> None:
    server.becomes(submit(server, kubernetes.settings(TAG)), FAILED)
    assert reached(server).settings(TAG)["spark.kubernetes.driver.pod.name"] == f"{TAG}-2"


def test_two_pods_with_one_tag_are_two_drivers(server: FakeKubernetes, kubernetes: Kubernetes) -> None:
    settings = kubernetes.settings(TAG)
    for name in ("of-somebody", f"{TAG}-1"):
        submit(server, {**settings, "spark.kubernetes.driver.pod.name": name})
    assert [driver.id for driver in kubernetes.find(TAG)] == ["etl:of-somebody", f"etl:{TAG}-1"]


def test_one_is_killed_and_runs_until_it_is_gone(server: FakeKubernetes, kubernetes: Kubernetes) -> None:
    name = submit(server, kubernetes.settings(TAG))
    server.becomes(name, RUNNING)
    kubernetes.kill(f"etl:{name}")
    (pod,) = server.pods()
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 2
    (dying,) = kubernetes.find(TAG)
    assert (dying.state, dying.why) == (DriverState.RUNS, "its pod is deleted")
    assert kubernetes.look(dying.id) is not None
    assert kubernetes.look(dying.id) is None
    kubernetes.kill(dying.id)


def test_one_whose_node_is_lost_runs_as_far_as_anybody_knows(server: FakeKubernetes, kubernetes: Kubernetes) -> None:
    name = submit(server, kubernetes.settings(TAG))
    server.becomes(name, RUNNING)
    server.lost = {name}
    for _try in range(5):
        kubernetes.kill(f"etl:{name}")
        assert [driver.state for driver in kubernetes.find(TAG)] == [DriverState.RUNS]


@pytest.mark.parametrize("late", [False, True])
def test_the_record_of_one_that_has_ended_is_not_deleted(
    server: FakeKubernetes, kubernetes: Kubernetes, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """It would be submitted again."""
    name = submit(server, kubernetes.settings(TAG))
    if late:  # it succeeds after it was looked at
        really = server.answer

        def answer_before_it_ends(method: str, path: str, body: bytes, credentials: str) -> Answer:
            code, read = really(method, path, body, credentials)
            answer = code, json.loads(json.dumps(read))
            if method == "GET":
                server.becomes(name, SUCCEEDED)
            return answer

        monkeypatch.setattr(server, "answer", answer_before_it_ends)
    else:
        server.becomes(name, SUCCEEDED)
    kubernetes.kill(f"etl:{name}")
    assert [driver.state for driver in kubernetes.find(TAG)] == [DriverState.SUCCEEDED]
    assert "deletionTimestamp" not in server.pods()[0]["metadata"]


def test_one_that_others_have_deleted_is_none(server: FakeKubernetes, kubernetes: Kubernetes) -> None:
    name = submit(server, kubernetes.settings(TAG))
    server.vanishes(name)
    assert kubernetes.look(f"etl:{name}") is None


def test_one_whose_submission_was_cut_off_is_deleted_after_a_while(
    server: FakeKubernetes, kubernetes: Kubernetes
) -> None:
    """It would wait for its config map for ever."""
    name = submit(server, kubernetes.settings(TAG), whole=False)
    (found,) = kubernetes.find(TAG)
    assert (found.state, found.why) == (DriverState.RUNS, "")
    kubernetes._cut_off_s = 0.0
    cut_off = kubernetes.look(f"etl:{name}")
    assert cut_off is not None
    assert cut_off.why == "spark-submit was ended before it had made conf-map; its pod is deleted"
    assert "deletionTimestamp" in server.pods()[0]["metadata"]


@pytest.mark.parametrize("readable", [True, False])
def test_one_that_has_all_that_it_needs_may_wait_for_ever(
    server: FakeKubernetes, kubernetes: Kubernetes, readable: bool
) -> None:
    """So may one of which this worker may not know."""
    kubernetes._cut_off_s = 0.0
    name = submit(server, kubernetes.settings(TAG), whole=readable)
    server.refuses = {} if readable else {"configmaps": 403}
    for _look in range(3):
        found = kubernetes.look(f"etl:{name}")
        assert found is not None
        assert found.why == ""
    assert "deletionTimestamp" not in server.pods()[0]["metadata"]


@pytest.mark.parametrize(("code", "advice"), [(401, "it does not know these credentials"), (403, "a role there")])
def test_if_it_refuses_the_first_question_what_to_do_is_told(
    server: FakeKubernetes, kubernetes: Kubernetes, code: int, advice: str
) -> None:
    server.refuses = {"pods": code}
    with pytest.raises(ClusterRefusesError, match=rf"answers {code}: pods is forbidden: User .*{advice}"):
        kubernetes.find(TAG)


@pytest.mark.parametrize("code", [401, 403, 500])
def test_if_it_refuses_later_it_is_asked_again_as_a_driver_may_run(
    server: FakeKubernetes, kubernetes: Kubernetes, code: int
) -> None:
    kubernetes.find(TAG)
    server.refuses = {"pods": code}
    questions: list[Callable[[], object]] = [
        lambda: kubernetes.find(TAG),
        lambda: kubernetes.look(f"etl:{TAG}-1"),
        lambda: kubernetes.kill(f"etl:{TAG}-1"),
    ]
    for question in questions:
        with pytest.raises(ClusterSilentError, match=f"answers {code}"):
            question()


def test_if_nobody_answers_it_is_silent() -> None:
    with pytest.raises(ClusterSilentError, match="Kubernetes does not answer: "):
        kubernetes_here(NOBODY, {}, {}).find(TAG)


def test_one_whose_certificate_is_unknown_here_is_not_asked_again_and_again(tmp_path: Path) -> None:
    """Another process may have the kubeconfig with its authority."""
    files = make_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.broker, files.broker_key)
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as https:
        https.socket = context.wrap_socket(https.socket, server_side=True)
        thread = threading.Thread(target=https.handle_request)
        thread.start()
        with pytest.raises(ClusterRefusesError, match="CERTIFICATE_VERIFY_FAILED"):
            kubernetes_here(f"k8s://127.0.0.1:{https.server_port}", {}, {}).find(TAG)
        thread.join()


@pytest.mark.parametrize("answer", [(200, {}), (200, []), (404, {}), (200, {"kind": "PodList", "items": [{}]})])
def test_if_something_else_answers_it_is_silent(
    server: FakeKubernetes, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    monkeypatch.setattr(server, "answer", lambda method, path, body, credentials: answer)
    with pytest.raises(ClusterSilentError, match="what answers is not Kubernetes"):
        reached(server).find(TAG)


def test_the_credentials_are_those_of_the_kubeconfig_and_the_address_is_that_of_the_master(
    server: FakeKubernetes, tmp_path: Path
) -> None:
    file = write_kubeconfig(tmp_path / "config", server="https://elsewhere.invalid:6443")
    kubernetes = reached(server, KUBECONFIG=str(file))
    for _question in range(2):
        assert kubernetes.find(TAG) == []
    assert shown(server) == {"Bearer token-of-ann"}


def test_the_context_is_that_of_sparks_settings(server: FakeKubernetes, tmp_path: Path) -> None:
    file = write_kubeconfig(tmp_path / "config", server=server.address)
    settings = {"spark.kubernetes.context": "elsewhere"}
    with pytest.raises(NoKubernetesError, match=r"credentials for Kubernetes can't be read: .*elsewhere"):
        kubernetes_here(f"k8s://{server.address}", settings, {"KUBECONFIG": str(file)})


def test_a_worker_in_a_pod_has_its_service_account(
    server: FakeKubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubernetes.config import incluster_config

    for name, text in (("TOKEN", "token-of-pod"), ("CERT", "a certificate")):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(incluster_config, f"SERVICE_{name}_FILENAME", str(tmp_path / name))
    inside = {"KUBERNETES_SERVICE_HOST": "elsewhere.invalid", "KUBERNETES_SERVICE_PORT": "443"}
    for variable, value in inside.items():
        monkeypatch.setenv(variable, value)
    reached(server, KUBECONFIG=str(tmp_path / "none"), **inside).find(TAG)
    assert {credentials.lower() for credentials in shown(server)} == {"bearer token-of-pod"}
    (tmp_path / "TOKEN").unlink()
    with pytest.raises(NoKubernetesError, match="Service token file does not exist"):
        reached(server, KUBECONFIG=str(tmp_path / "none"), **inside)


def test_a_token_from_a_file_is_sent_without_the_end_of_its_line(server: FakeKubernetes, tmp_path: Path) -> None:
    file = write_kubeconfig(tmp_path / "config", server=server.address, token="token-of-ann\n")
    reached(server, KUBECONFIG=str(file)).find(TAG)
    assert shown(server) == {"Bearer token-of-ann"}


@pytest.mark.parametrize("token", ["s3cr3t\nmore", "s3cr3t\x00", "s3cr3t…"])
def test_a_token_that_no_request_can_carry_is_not_in_the_error(
    server: FakeKubernetes, tmp_path: Path, token: str
) -> None:
    kubernetes = reached(server, KUBECONFIG=str(write_kubeconfig(tmp_path / "config", server.address, token)))
    with pytest.raises(ClusterSilentError, match="credentials have characters that can't be sent") as silent:
        kubernetes.find(TAG)
    assert "s3cr3t" not in str(silent.value)


def test_an_address_without_a_scheme_has_tls_as_for_spark() -> None:
    with pytest.raises(ClusterSilentError) as silent:
        kubernetes_here("k8s://127.0.0.1:1", {}, {}).find(TAG)
    assert "HTTPSConnection" in str(silent.value)


def test_a_worker_without_the_client_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(NoKubernetesError, match=r"install the extra \[kubernetes\] of this package"):
        kubernetes_here(NOBODY, {}, {})
