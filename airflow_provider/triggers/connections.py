"""A connection's settings, for all triggers of a triggerer that ask for them at the same time.

Airflow answers a triggerer's questions one by one, each with a look into its database and, if it is the first, after
seconds of preparation; new triggers and events wait meanwhile. A triggerer that starts has hundreds of triggers that
all want to know the same.
"""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.kafka.settings import KafkaSettings

_Asked = dict[str, "asyncio.Future[KafkaSettings]"]

_ASKED: WeakKeyDictionary[asyncio.AbstractEventLoop, _Asked] = WeakKeyDictionary()


async def settings_of(kafka_conn_id: str) -> KafkaSettings:
    """The connection's settings as Airflow has them now; who asks while another waits for the answer shares that.

    :raises SettingsError: if the connection can't be used
    """
    asked = _ASKED.setdefault(asyncio.get_running_loop(), {})
    answer = asked.get(kafka_conn_id)
    if answer is None:
        answer = asked[kafka_conn_id] = asyncio.ensure_future(SparkGroupHook(kafka_conn_id).aget_settings())

        def forget(answer: asyncio.Future[KafkaSettings]) -> None:
            del asked[kafka_conn_id]
            _ = answer.cancelled() or answer.exception()  # seen, also if nobody waits for it any more

        answer.add_done_callback(forget)
    # Shielded: a trigger that is cancelled meanwhile must not take the answer from the others.
    return await asyncio.shield(answer)
