"""Who may hold rows of a shop's database, for a test that fails once in a thousand runs."""

from __future__ import annotations

import threading

from tests.support.shop.shop import Shop

_TRANSACTIONS = """
SELECT trx_id, trx_state, trx_started, trx_rows_locked, trx_query, p.id, p.db, p.command, p.time
FROM information_schema.innodb_trx LEFT JOIN information_schema.processlist AS p
    ON p.id = trx_mysql_thread_id
"""


def holders(shop: Shop) -> str:
    """Return this process's threads, and on MariaDB the server's open transactions."""
    told = [repr(thread) for thread in threading.enumerate()]
    if shop.engine.dialect.name == "mariadb":
        with shop.engine.connect() as connection:
            told += [str(row._asdict()) for row in connection.exec_driver_sql(_TRANSACTIONS)]
    return "\n".join(told)
