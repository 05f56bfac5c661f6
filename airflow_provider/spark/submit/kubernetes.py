"""Kubernetes, by the API that ``spark-submit`` uses, too (a :class:`~airflow_provider.spark.submit.detached.Cluster`).

Each try of a driver has a pod of another name, and all have a label with the tag. Two processes that submit the same
try choose the same name, and Kubernetes takes the first: so no try runs twice, even if neither knows of the other.

The credentials are found, and renewed, by the client that the Kubernetes project keeps, where ``spark-submit`` finds
them: in a kubeconfig, or else in the pod of this process. The address is always that of a master that the worker
allows. Of the client, only its connections are used: its class for pods takes 90 MB and 0.7 s in each process.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from airflow_provider.spark.submit.detached import ClusterRefusesError, ClusterSilentError, Driver, DriverState
from airflow_provider.spark.submit.pods import conf_map_of, driver_of

MASTER: Final = "k8s://"
_LABEL: Final = "cospark-tag"
_ANSWER_S: Final = 10.0
_GRACE_S: Final = 2
"""Between SIGTERM and SIGKILL: a stop waits for the end of what it has killed."""
_CUT_OFF_S: Final = 60.0
_REFUSALS: Final[Mapping[int, str]] = {
    401: " (it does not know these credentials: see the kubeconfig, or the service account of the pod)",
    403: " (give this account a role there that may do this)",
}
_NOT_THERE: Final = (404, 409)
"""Or it has changed since it was read."""
_KUBECONFIG: Final = "~/.kube/config"
_SENDABLE: Final = re.compile(r"[\x20-\x7e]*")
"""What a header may have."""
_JSON: Final[Mapping[str, str]] = {"Accept": "application/json", "Content-Type": "application/json"}


class NoKubernetesError(Exception):
    """This process can't reach Kubernetes."""


class Kubernetes:
    """A namespace.

    :param address: of the API server
    :param configuration: a ``Configuration`` of the package ``kubernetes``: with credentials
    :param namespace: of all drivers
    :param name: by which other processes find it; empty: they can't
    :param cut_off_s: how long a pod may lack what is made right after it
    """

    def __init__(
        self, address: str, configuration: Any, namespace: str, name: str = "", cut_off_s: float = _CUT_OFF_S
    ) -> None:
        from kubernetes.client.rest import RESTClientObject

        self._address = configuration.host = address  # by which it chooses a proxy
        self._configuration = configuration
        self._connections = RESTClientObject(configuration).pool_manager
        self._namespace = namespace
        self.name = name
        self._cut_off_s = cut_off_s
        self._tries: dict[str, int] = {}
        self._incomplete: dict[str, float] = {}
        self._answered = False

    def settings(self, tag: str) -> Mapping[str, str]:
        """Those of the next try, by what was found last."""
        if tag not in self._tries:
            self.find(tag)
        return {
            "spark.submit.deployMode": "cluster",
            "spark.kubernetes.namespace": self._namespace,
            f"spark.kubernetes.driver.label.{_LABEL}": tag,
            "spark.kubernetes.driver.pod.name": f"{tag}-{self._tries[tag] + 1}",
            "spark.kubernetes.submission.waitAppCompletion": "false",
        }

    def find(self, tag: str) -> list[Driver]:
        answer = self._ask("GET", f"{self._namespace}/pods?labelSelector={quote(f'{_LABEL}={tag}')}")
        if answer is None or answer.get("kind") != "PodList":
            raise ClusterSilentError("what answers is not Kubernetes: is the master's address right?")
        drivers = [self._driver(pod) for pod in answer.get("items") or ()]
        tries = (re.search(rf":{re.escape(tag)}-(\d{{1,9}})$", driver.id) for driver in drivers)
        self._tries[tag] = max((int(found[1]) for found in tries if found), default=0)
        return drivers

    def look(self, driver_id: str) -> Driver | None:
        pod = self._ask("GET", _path(driver_id))
        return None if pod is None else self._driver(pod)

    def kill(self, driver_id: str) -> None:
        """The record of one that has succeeded stays: if it ends meanwhile, nothing is deleted."""
        pod = self._ask("GET", _path(driver_id))
        if pod is None or _read(pod).state is not DriverState.RUNS:
            return
        same = {key: pod["metadata"][key] for key in ("uid", "resourceVersion")}
        self._ask("DELETE", _path(driver_id), {"gracePeriodSeconds": _GRACE_S, "preconditions": same})

    def _driver(self, pod: Mapping[str, Any]) -> Driver:
        """If ``spark-submit`` was killed before it had made all that it makes, the pod would hold its place on a node
        for ever, and never start: then it is deleted.
        """
        driver = _read(pod)
        missing = conf_map_of(pod)
        if not missing or not self._lacks(pod["metadata"], missing):
            return driver
        self.kill(driver.id)
        return replace(driver, why=f"spark-submit was ended before it had made {missing}; its pod is deleted")

    def _lacks(self, metadata: Mapping[str, Any], conf_map: str) -> bool:
        """Whether this pod has had no such config map for a minute."""
        try:
            found = self._ask("GET", f"{metadata['namespace']}/configmaps/{conf_map}")
        except (ClusterRefusesError, ClusterSilentError):
            return False  # this process need not be allowed to read it
        if found is not None:
            self._incomplete.pop(metadata["uid"], None)
            return False
        since = self._incomplete.setdefault(metadata["uid"], time.monotonic())
        return time.monotonic() - since >= self._cut_off_s

    def _ask(self, method: str, path: str, body: object = None) -> dict[str, Any] | None:
        """None: there is no such thing, or it has changed since it was read.

        :raises ClusterRefusesError: if it refuses the first question, or its certificate is unknown here. Later it is
            asked again, as a driver may run
        :raises ClusterSilentError: if it does not answer
        """
        from kubernetes.config import ConfigException
        from urllib3.exceptions import HTTPError, SSLError

        url = f"{self._address}/api/v1/namespaces/{path}"
        data = None if body is None else json.dumps(body).encode()
        try:
            answer = self._connections.request(
                method, url, body=data, headers={**_JSON, **self._credentials()}, timeout=_ANSWER_S, retries=False
            )
            read = json.loads(answer.data)
        except (ConfigException, HTTPError, OSError, ValueError) as wrong:
            untrusted = isinstance(wrong, SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(wrong)
            raise self._no_answer(untrusted, f"Kubernetes does not answer: {wrong}") from None
        if not isinstance(read, dict):
            raise ClusterSilentError("what answers is not Kubernetes: is the master's address right?")
        if answer.status >= 300 and answer.status not in _NOT_THERE:
            advice = _REFUSALS.get(answer.status, "")
            said = f"Kubernetes answers {answer.status}: {read.get('message')}{advice}"
            raise self._no_answer(advice != "", said)
        self._answered = True
        return None if answer.status in _NOT_THERE else read

    def _no_answer(self, is_refusal: bool, why: str) -> Exception:
        return (ClusterRefusesError if is_refusal and not self._answered else ClusterSilentError)(why)

    def _credentials(self) -> dict[str, str]:
        """Without the end of the line of a file with a token. The error for other text that no header may have would
        contain it.

        :raises ConfigException, OSError, ValueError: if they can't be read, or sent
        """
        auth = self._configuration.auth_settings().values()
        shown = {each["key"]: (each["value"] or "").strip() for each in auth}
        if not all(_SENDABLE.fullmatch(value) for value in shown.values()):
            raise ValueError("the credentials have characters that can't be sent")
        return shown


def kubernetes_here(master: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> Kubernetes:
    """The Kubernetes of a master, with the credentials of this process. None are no error, as for ``spark-submit``.

    Other processes find it by its master and its namespace, but not with the credentials of a context that Spark's
    settings name: these are this process's own.

    :param settings: all settings of Spark for the application, wherever they are from
    :raises NoKubernetesError: if its client is not installed, or the credentials can't be read
    """
    try:
        from kubernetes import client, config
    except ImportError:
        raise NoKubernetesError(
            "there is no client of Kubernetes here: install the extra [kubernetes] of this package"
        ) from None
    found = client.Configuration()
    files = environment.get("KUBECONFIG") or _KUBECONFIG
    context = settings.get("spark.kubernetes.context") or None
    try:
        if any(Path(file).expanduser().is_file() for file in files.split(os.pathsep)):
            config.load_kube_config(files, context, client_configuration=found, persist_config=False)
        elif "KUBERNETES_SERVICE_HOST" in environment:
            config.load_incluster_config(client_configuration=found)
    except (config.ConfigException, OSError, ValueError) as wrong:
        raise NoKubernetesError(f"the credentials for Kubernetes can't be read: {wrong}") from wrong
    address = master.removeprefix(MASTER)
    address = (address if "://" in address else f"https://{address}").rstrip("/")
    namespace = settings.get("spark.kubernetes.namespace") or "default"
    return Kubernetes(address, found, namespace, "" if context else f"{master}/namespaces/{namespace}")


def _path(driver_id: str) -> str:
    namespace, _, name = driver_id.partition(":")
    return f"{quote(namespace)}/pods/{quote(name)}"


def _read(pod: Mapping[str, Any]) -> Driver:
    """:raises ClusterSilentError: if this is no pod"""
    try:
        return driver_of(pod)
    except (KeyError, TypeError, ValueError):
        raise ClusterSilentError("what answers is not Kubernetes: it has no such pod") from None
