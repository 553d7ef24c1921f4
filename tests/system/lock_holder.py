"""A program that locks persons: `python -m tests.system.lock_holder URI DATABASE APPNAME ID...`.

It changes them in a transaction, prints a line, and aborts when its standard input closes.
"""

from __future__ import annotations

import sys
from typing import Any

from pymongo import MongoClient


def main(uri: str, database: str, appname: str, *ids: str) -> None:
    client: MongoClient[dict[str, Any]]
    with MongoClient(uri, appname=appname) as client, client.start_session() as session:
        session.start_transaction()
        client[database].persons.update_many(
            {"_id": {"$in": [int(id_) for id_ in ids]}},
            {"$set": {"last_name": "not committed"}},
            session=session,
        )
        sys.stdout.write("locked\n")
        sys.stdout.flush()
        sys.stdin.read()
        session.abort_transaction()


if __name__ == "__main__":
    main(*sys.argv[1:])
