"""The options by which all subcommands reach Kafka."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any, Final

from airflow_provider.kafka.settings import KafkaSettings, SettingsError

BOOTSTRAP_ENV: Final = "COSPARK_BOOTSTRAP_SERVERS"
_COMMAND_LINE: Final = "the command line"


def add_connection_arguments(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group("where Kafka is")
    where.add_argument(
        "--bootstrap-servers",
        metavar="HOST:PORT",
        default=os.environ.get(BOOTSTRAP_ENV),
        help=f"brokers to ask first (default: ${BOOTSTRAP_ENV})",
    )
    where.add_argument(
        "--kafka-config",
        metavar="FILE",
        type=Path,
        help="librdkafka's configuration as a JSON object, for TLS and SASL: as in a connection's extra",
    )


def settings_of(args: argparse.Namespace) -> KafkaSettings:
    """The settings from the options.

    :raises SettingsError: if they name no broker, or are wrong
    """
    config: dict[str, Any] = {}
    if args.kafka_config is not None:
        try:
            config = json.loads(args.kafka_config.read_text())
        except (OSError, ValueError) as wrong:
            raise SettingsError(_COMMAND_LINE, "--kafka-config", f"{args.kafka_config}: {wrong}") from wrong
        if not isinstance(config, dict):
            raise SettingsError(_COMMAND_LINE, "--kafka-config", f"{args.kafka_config} must hold a JSON object")
    if args.bootstrap_servers:
        config["bootstrap.servers"] = args.bootstrap_servers
    if "bootstrap.servers" not in config:
        raise SettingsError(
            _COMMAND_LINE,
            "--bootstrap-servers",
            f"say where Kafka is, by this option or by ${BOOTSTRAP_ENV}; `cospark broker` starts one to try",
        )
    return KafkaSettings.from_extra(config, conn_id=_COMMAND_LINE)
