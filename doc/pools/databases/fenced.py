"""The database that this process was lent, protected from those that had it before."""

import os
import sqlite3


class Fenced(Exception):
    """Somebody else has the database now."""


class Database:
    """`with Database() as db:` is a transaction. It fails if a later holder has come."""

    def __init__(self):
        self.db = sqlite3.connect(os.environ["COUNTER_VALUE"], timeout=30, isolation_level=None)
        self.fence = int(os.environ["COUNTER_FENCE"])

    def __enter__(self):
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute("CREATE TABLE IF NOT EXISTS fence (highest INTEGER)")
        (highest,) = self.db.execute("SELECT max(highest) FROM fence").fetchone()
        if highest is not None and highest > self.fence:
            self.db.execute("ROLLBACK")
            raise Fenced("%d has come after %d" % (highest, self.fence))
        self.db.execute("DELETE FROM fence")
        self.db.execute("INSERT INTO fence VALUES (?)", (self.fence,))
        return self.db

    def __exit__(self, error, *_):
        self.db.execute("ROLLBACK" if error else "COMMIT")
