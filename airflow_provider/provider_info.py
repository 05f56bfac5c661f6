"""What Airflow learns about this package (entry point ``apache_airflow_provider``)."""

from __future__ import annotations

from typing import Any, Final

from airflow_provider import __version__

_INTEGRATION: Final = "Cooperative Spark"
_TEXT: Final = {"type": ["string", "null"]}
_SECRET: Final = {"type": ["string", "null"], "format": "password"}


def get_provider_info() -> dict[str, Any]:
    """Follows Airflow's schema ``provider_info.schema.json``."""
    return {
        "package-name": "airflow-provider-cooperative-spark",
        "name": "Cooperative Spark",
        "description": "Run Spark tasks, spread over workers by Kafka's group protocol as Kafka Connect does (KIP-415)",
        "versions": [__version__],
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://spark.apache.org/",
                "tags": ["apache"],
            }
        ],
        "hooks": [_modules("airflow_provider.hooks.spark_connect", "airflow_provider.hooks.spark_group")],
        "operators": [
            _modules(
                "airflow_provider.operators.retry_spark_job",
                "airflow_provider.operators.rebalance_spark_group",
                "airflow_provider.operators.scale_spark_group",
                "airflow_provider.operators.spark_coordinator",
                "airflow_provider.operators.spark_job",
                "airflow_provider.operators.spark_worker",
                "airflow_provider.operators.steer_spark_job",
            )
        ],
        "task-decorators": [{"name": "cospark", "class-name": "airflow_provider.decorators.cospark.cospark_task"}],
        "sensors": [_modules("airflow_provider.sensors.assignment_epoch", "airflow_provider.sensors.job")],
        "triggers": [
            _modules(
                "airflow_provider.triggers.coordinator",
                "airflow_provider.triggers.group",
                "airflow_provider.triggers.group_event",
                "airflow_provider.triggers.worker",
            )
        ],
        "connection-types": [
            {
                "connection-type": "kafka",
                "hook-class-name": "airflow_provider.hooks.spark_group.SparkGroupHook",
                "hook-name": "Apache Kafka",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "login", "password", "port", "host"],
                    "relabeling": {"extra": "Config Dict"},
                    "placeholders": {
                        "extra": '{"bootstrap.servers": "localhost:9092", "security.protocol": "PLAINTEXT"}'
                    },
                },
                "conn-fields": {
                    "bootstrap.servers": {
                        "label": "Bootstrap servers",
                        "description": "The brokers to ask first: host:port, with commas between them",
                        "schema": _TEXT,
                    },
                    "security.protocol": {
                        "label": "Security protocol",
                        "description": "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
                        "schema": _TEXT,
                    },
                    "sasl.mechanism": {
                        "label": "SASL mechanism",
                        "description": "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
                        "schema": _TEXT,
                    },
                    "sasl.username": {"label": "SASL user name", "schema": _TEXT},
                    "sasl.password": {"label": "SASL password", "schema": _SECRET},
                    "ssl.ca.location": {
                        "label": "CA file",
                        "description": "The file of the certificate authority, on every machine that runs tasks",
                        "schema": _TEXT,
                    },
                },
            },
            # As Airflow's provider for Apache Spark has it, which need not be installed.
            {
                "connection-type": "spark_connect",
                "hook-class-name": "airflow_provider.hooks.spark_connect.SparkConnectHook",
                "hook-name": "Spark Connect",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema"],
                    "relabeling": {"password": "Token", "login": "User ID"},
                },
                "conn-fields": {
                    "use_ssl": {"label": "Use SSL", "schema": {"type": ["boolean", "null"], "default": False}}
                },
            },
        ],
        "extra-links": ["airflow_provider.integration.links.SparkGroupLink"],
        "config": {
            "cooperative_spark": {
                "description": "Workers of groups that share Spark tasks",
                "options": {
                    "default_group_protocol": {
                        "description": (
                            "The group protocol of workers that set no group_protocol: classic, Kafka's own, in rounds;"
                            " or connect, declarative groups. Set the same wherever DAGs are parsed and tasks run."
                            " Change it while no group has workers, or migrate running groups as docs/declarative.md"
                            " says. It does not apply to workers with connect_protocol='extensible' or learners, which"
                            " only classic groups have."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "connect",
                        "default": "classic",
                    },
                    "metrics_interval": {
                        "description": (
                            "Seconds between two values of a group's gauges, if [metrics] sends metrics anywhere. At"
                            " least 0.1."
                        ),
                        "version_added": "0.1.0",
                        "type": "float",
                        "example": None,
                        "default": "10.0",
                    },
                    "page_connections": {
                        "description": (
                            "The connections whose groups the page in Airflow's UI shows, separated by commas. By"
                            " default all of type kafka that are in Airflow's database or in the environment of the API"
                            " server. Connections in another secrets backend can't be listed: name them here."
                            " With multi_team, id@team is a team's own connection."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "kafka_default,kafka_streams",
                        "default": "",
                    },
                    "page_actions": {
                        "description": (
                            "What users with the rights to it can do on the page in Airflow's UI. none: only look;"
                            " steer: act on the jobs, tasks and workers that are there; all: submit and alter jobs,"
                            " too. Who submits a job chooses its entry point and its config, past the params of any"
                            " DAG."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "all",
                        "default": "steer",
                    },
                    "gc_freeze": {
                        "description": (
                            "Have each triggerer call Python's gc.freeze() when its first deferred worker comes and"
                            " when Kafka's clients are loaded, and collect garbage only after every 10,000 new objects."
                            " A full collection then stops the event loop about 100 ms less, and is rare. Objects of"
                            " other triggers that exist at that moment are never collected if they later become a cycle"
                            " of garbage, so use this for triggerers that hold many hundreds of workers."
                        ),
                        "version_added": "0.1.0",
                        "type": "boolean",
                        "example": None,
                        "default": "False",
                    },
                },
            }
        },
        "cli": ["airflow_provider.cli.airflow_commands.get_commands"],
    }


def _modules(*modules: str) -> dict[str, Any]:
    return {"integration-name": _INTEGRATION, "python-modules": list(modules)}
