"""The tables of the database, and the version of their form."""

from __future__ import annotations

__all__ = ["APPLICATION", "TABLES", "VERSION"]

APPLICATION = 0x77656674
"""SQLite's ``application_id``: the letters "weft"."""

VERSION = 1
"""SQLite's ``user_version``: it changes with the tables."""

TABLES = (
    """CREATE TABLE execution (
        number INTEGER PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        state TEXT NOT NULL,
        owner TEXT NOT NULL,
        command TEXT NOT NULL,
        version TEXT NOT NULL,
        started_at_s REAL NOT NULL,
        ended_at_s REAL,
        header TEXT NOT NULL
    )""",
    "CREATE INDEX execution_by_fingerprint ON execution (fingerprint)",
    """CREATE TABLE plan (
        execution INTEGER NOT NULL,
        key TEXT NOT NULL,
        record TEXT NOT NULL,
        PRIMARY KEY (execution, key)
    )""",
    # A table of its own key, so that an entry is written to one place only.
    """CREATE TABLE entry (
        execution INTEGER NOT NULL,
        number INTEGER NOT NULL,
        record TEXT NOT NULL,
        PRIMARY KEY (execution, number)
    ) WITHOUT ROWID""",
    # Only the last of an execution is kept: from any other the way to the end is longer.
    """CREATE TABLE snapshot (
        execution INTEGER PRIMARY KEY,
        entry INTEGER NOT NULL,
        state TEXT NOT NULL
    )""",
    """CREATE TABLE kept (
        execution INTEGER NOT NULL,
        key TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (execution, key)
    ) WITHOUT ROWID""",
    """CREATE TABLE run (
        number INTEGER PRIMARY KEY,
        execution INTEGER NOT NULL,
        position INTEGER NOT NULL,
        workflow TEXT NOT NULL,
        owner TEXT NOT NULL,
        state TEXT NOT NULL,
        reason TEXT NOT NULL,
        tasks INTEGER NOT NULL,
        started_at_s REAL NOT NULL,
        ended_at_s REAL,
        predicted_p50_s REAL,
        predicted_p90_s REAL,
        UNIQUE (execution, position)
    )""",
    """CREATE TABLE product (
        number INTEGER PRIMARY KEY,
        execution INTEGER NOT NULL,
        run INTEGER NOT NULL,
        task INTEGER NOT NULL,
        name TEXT NOT NULL,
        kind TEXT NOT NULL,
        workflow TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        iteration INTEGER NOT NULL,
        machine TEXT NOT NULL,
        directory TEXT NOT NULL,
        exit_code INTEGER NOT NULL,
        result TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        parts TEXT NOT NULL,
        seconds REAL NOT NULL
    )""",
    "CREATE INDEX product_by_task ON product (execution, run, task)",
    "CREATE INDEX product_by_name ON product (workflow, name)",
    "CREATE INDEX product_by_fingerprint ON product (fingerprint) WHERE fingerprint <> ''",
    """CREATE TABLE made_file (
        product INTEGER NOT NULL,
        position INTEGER NOT NULL,
        name TEXT NOT NULL,
        size_bytes INTEGER NOT NULL,
        digest TEXT NOT NULL,
        modified_ns INTEGER NOT NULL,
        PRIMARY KEY (product, position)
    ) WITHOUT ROWID""",
    # AUTOINCREMENT: a number is never given to another request, even after the first was removed.
    """CREATE TABLE request (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        what TEXT NOT NULL,
        execution INTEGER NOT NULL,
        run INTEGER,
        task TEXT,
        machine TEXT,
        owner TEXT NOT NULL,
        asked_at_s REAL NOT NULL,
        answer TEXT,
        granted INTEGER
    )""",
    "CREATE INDEX request_open ON request (number) WHERE answer IS NULL",
)
