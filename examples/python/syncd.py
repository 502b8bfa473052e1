#!/usr/bin/env python3
"""A client of a syncd sidecar, of Python's standard library alone.

    syncd.py ADDR read TABLE KEY [MIN_VERSION]   one row; exit status 1 where there is none
    syncd.py ADDR many TABLE KEY...              the rows under these keys, of one commit
    syncd.py ADDR watch TABLE COUNT [SINCE]      the first COUNT changes behind the version SINCE; else the rows, then their changes

KEY is the key's value; of a key of several columns its values in key order, joined by commas. A token, where the sidecar wants one, is
taken from SYNCD_TOKEN.
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request


class SyncdError(Exception):
    """An answer other than the one asked for. Its text says what to do."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def key_path(values):
    """The key as a path carries it."""

    def one(value):
        text = str(value)
        if text in (".", ".."):
            return text.replace(".", "%2E")
        if len(text) != 1 and text.strip('"') == "":
            return "%22" * (len(text) + 2)
        return urllib.parse.quote(text, safe="")

    return ",".join(one(v) for v in values)


class Sidecar:
    def __init__(self, addr, token=None):
        self.addr = addr.rstrip("/")
        self.headers = {"Authorization": "Bearer " + token} if token else {}

    def _open(self, path, params=None, body=None, headers=None, timeout=60):
        url = self.addr + path
        if params:
            url += "?" + urllib.parse.urlencode(params)
        request = urllib.request.Request(url, data=body, headers={**self.headers, **(headers or {})})
        try:
            return urllib.request.urlopen(request, timeout=timeout)
        except urllib.error.HTTPError as e:
            with e:
                try:
                    text = json.load(e)["error"]
                except (ValueError, KeyError):  # something in between has answered
                    text = f"{url}: {e}"
            raise SyncdError(e.code, text) from None

    @staticmethod
    def _table(table):
        return "/v1/tables/" + urllib.parse.quote(table, safe="")

    def get(self, table, key, **params):
        """The row under a key (its values in key order), None where there is none. min_version="0/16B3748" waits for a write."""
        try:
            with self._open(f"{self._table(table)}/rows/{key_path(key)}", params) as answer:
                return json.load(answer)
        except SyncdError as e:
            if e.status == 404 and e.args[0].startswith("no row"):
                return None
            raise

    def read(self, reads, **params):
        """Several tables and keys from one commit: [{"table": "public.users", "keys": [[1], [2]]}, …]."""
        body = json.dumps({"reads": reads}).encode()
        with self._open("/v1/read", params, body, {"Content-Type": "application/json"}) as answer:
            return json.load(answer)

    def watch(self, table, since=None, **filters):
        """Yields (event, data) as they come, over as many connections as it takes. A reset voids all that came before."""
        last, began = None, since is None
        while True:
            try:
                params = {**filters, "list": "true"} if began else {**filters, "since": since}
                headers = {"Last-Event-ID": last} if last else {}
                with self._open(self._table(table) + "/watch", params, headers=headers) as answer:
                    for event, data, ident in events(answer):
                        began, last = True, ident or last
                        if event == "reset":
                            last = None
                        yield event, data
            except SyncdError as e:
                if e.status == 410:  # too old: begin anew with the rows
                    began, last = True, None
                    yield "reset", {"reason": str(e)}
                    continue
                if e.status not in (502, 503, 504):
                    raise
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(1)


def events(lines):
    """Takes server-sent events apart: (event, data, id or None)."""
    event, data, ident = None, [], None
    for line in lines:
        line = line.decode().rstrip("\r\n")
        if not line:
            if data:
                yield event, json.loads("\n".join(data)), ident
            event, data, ident = None, [], None
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            event = value
        elif name == "data":
            data.append(value)
        elif name == "id":
            ident = value


def main(args):
    if len(args) < 4 or args[1] not in ("read", "many", "watch") or args[1] == "watch" and not (args[3].isdecimal() and int(args[3]) > 0):
        print(__doc__, file=sys.stderr)
        return 2
    sidecar, table = Sidecar(args[0], os.environ.get("SYNCD_TOKEN")), args[2]
    if args[1] == "read":
        # A service writes, takes SELECT pg_current_wal_insert_lsn(), and reads its own write with that as min_version.
        row = sidecar.get(table, args[3].split(","), **({"min_version": args[4]} if len(args) > 4 else {}))
        if row is None:
            return 1
        print(json.dumps(row))
    elif args[1] == "many":
        result = sidecar.read([{"table": table, "keys": [k.split(",") for k in args[3:]]}])["results"][0]
        for row in result["items"]:
            print(json.dumps(row))
        for key in result["missing"]:
            print("missing", key_path(key))
    else:
        left = int(args[3])
        for event, data in sidecar.watch(table, args[4] if len(args) > 4 else None):
            if event in ("upsert", "delete"):
                print(event, key_path(data["key"]), *([json.dumps(data["row"])] if event == "upsert" else []), flush=True)
                left -= 1
                if left == 0:
                    break
            elif event == "reset":
                print("reset", data["reason"], flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except SyncdError as e:
        sys.exit(f"syncd.py: {e}")
    except OSError as e:
        sys.exit(f"syncd.py: ask {sys.argv[1]}: {getattr(e, 'reason', e)}: does a sidecar listen there?")
    except KeyboardInterrupt:
        sys.exit(130)
