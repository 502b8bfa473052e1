#!/usr/bin/env python3
"""Queries the file of a sidecar's SQLite sink with SQL, while the sidecar writes it.

    query.py FILE 'SELECT * FROM "public.users" WHERE id = 7'

Each source table is one table, named schema.table as a whole; _syncd_tables lists them. The file is opened read-only: the sidecar is its only writer.
"""

import json
import pathlib
import sqlite3
import sys


def main(args):
    if len(args) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    db = sqlite3.connect(pathlib.Path(args[0]).resolve().as_uri() + "?mode=ro", uri=True, timeout=5)
    db.row_factory = sqlite3.Row
    try:
        for row in db.execute(args[1]):
            print(json.dumps(dict(row)))
    finally:
        db.close()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except sqlite3.Error as e:
        sys.exit(f"query.py: {sys.argv[1]}: {e}")
