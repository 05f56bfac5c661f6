"""The handle by which a query that outlives its worker is found again. It is written to the status topic, so it has no
secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider.spark.connect.server import ConnectServer

_LONGEST_ID: Final = 1_000
"""A server is asked again and again about a query that it can't have, and logs the ids each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryHandle:
    """A streaming query on a Spark Connect server. The handle is made before the query is started.

    :param server: the server and the user
    :param session_id: the session in which the query runs; used for one attempt of one task only
    :param conn_id: the Airflow connection to the server; empty: none is needed
    :param query_id: stays the same over restarts from the checkpoint; None: the query may not have been started yet
    :param run_id: the id of this run of the query
    """

    server: ConnectServer
    session_id: str
    conn_id: str = ""
    query_id: str | None = None
    run_id: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether it has the ids of the query and of its run."""
        return self.query_id is not None and self.run_id is not None

    @property
    def place(self) -> tuple[ConnectServer, str]:
        """What is known of it before it is started."""
        return self.server, self.session_id

    def to_json(self) -> dict[str, Any]:
        return {
            "server": self.server.url,
            "session_id": self.session_id,
            "conn_id": self.conn_id,
            "query_id": self.query_id,
            "run_id": self.run_id,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> QueryHandle:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else
        """
        try:
            server, session_id = ConnectServer.parse(data["server"]), data["session_id"]
            rest = (data.get("conn_id") or "", data.get("query_id"), data.get("run_id"))
        except (TypeError, KeyError, AttributeError) as wrong:
            raise ValueError(f"not a handle of a query: {wrong!r}") from None
        conn_id, query_id, run_id = rest
        if not isinstance(session_id, str) or not all(isinstance(each, str | None) for each in rest):
            raise ValueError("not a handle of a query: its ids must be strings")
        if any(each is not None and len(each) > _LONGEST_ID for each in (session_id, *rest)):
            raise ValueError(f"not a handle of a query: its ids must have at most {_LONGEST_ID} characters")
        return cls(server=server, session_id=session_id, conn_id=conn_id, query_id=query_id, run_id=run_id)
