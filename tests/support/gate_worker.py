"""A worker process that stops in the middle of its transaction and waits to be killed. Configuration: one JSON line."""

from __future__ import annotations

import json
import sys
import time

from airflow_provider_dpone.drivers import Connection, Secret
from airflow_provider_dpone.drivers.mssql import MsSqlDsn, connect
from airflow_provider_dpone.ledger import ActivationStore, LedgerSettings
from airflow_provider_dpone.routes.interface import AttemptContext
from tests.support.ledger_records import SERVICE
from tests.support.live_gate import LiveGate


def wait_inside(ctx: AttemptContext, connection: Connection) -> None:
    print("writing", flush=True)
    time.sleep(120)


def main() -> None:
    given = json.loads(sys.stdin.readline())
    controller = MsSqlDsn(
        host=given["host"],
        port=given["port"],
        database=given["control"],
        user=given["user"],
        password=Secret(given["password"]),
        trust_server_certificate=True,
    )
    settings = LedgerSettings(service_id=SERVICE)
    activation = ActivationStore(lambda: connect(controller), settings).read(given["activation_id"])
    assert activation is not None
    live = LiveGate(
        dba=controller,
        controller=controller,
        observer=controller,
        target=given["target"],
        settings=settings,
        activation=activation,
    )
    route = live.route()
    route.before_commit = wait_inside
    live.attempt(given["run_id"], route=route).run()


if __name__ == "__main__":
    main()
