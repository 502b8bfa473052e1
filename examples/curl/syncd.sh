#!/bin/sh
# Reads a sidecar with curl alone. A token, where the sidecar wants one, is taken from SYNCD_TOKEN.
#
#   syncd.sh ADDR read TABLE KEY [MIN_VERSION]   one row; exit status 1 where there is none
#   syncd.sh ADDR many TABLE KEY...              the rows under these keys, of one commit, as the sidecar answers
#   syncd.sh ADDR watch TABLE COUNT [SINCE]      the first COUNT changes behind the version SINCE; else the rows, then their changes
#
# KEY is the key's values, each percent-encoded, joined by commas; for "many" one value, without commas or quotes.
set -eu

usage() { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 4 ] || usage
addr=$1 command=$2 table=$3
shift 3

# get asks for a path below the table, and fails with the answer's body where it is no row.
get() {
  path=$1
  shift
  if [ -n "${SYNCD_TOKEN:-}" ]; then set -- -H "Authorization: Bearer $SYNCD_TOKEN" "$@"; fi
  ${in_place:-} curl -sS --fail-with-body --globoff -G "$@" "$addr/v1/tables/$table/$path"
}

# changes prints the first $1 changes of a stream of events, and ends.
changes() {
  left=$1 event=
  while IFS= read -r line; do
    case $line in
      event:*) event=${line#event: } ;;
      data:*)
        case $event in
          upsert | delete)
            printf '%s %s\n' "$event" "${line#data: }"
            left=$((left - 1))
            [ "$left" -gt 0 ] || return 0
            ;;
          reset) printf 'reset %s\n' "${line#data: }" ;; # what was read is void: begin anew
        esac
        ;;
    esac
  done
  return 1 # the connection was lost: begin behind the last "id:", with a Last-Event-ID header
}

case $command in
  read)
    # A service writes, takes SELECT pg_current_wal_insert_lsn(), and reads its own write with that as min_version.
    if [ $# -gt 1 ]; then get "rows/$1" --data-urlencode "min_version=$2" || exit 1; else get "rows/$1" || exit 1; fi
    echo
    ;;
  many)
    keys=$(IFS=,; echo "$*")
    get rows --data-urlencode "key=in.($keys)"
    ;;
  watch)
    case $1 in '' | 0* | *[!0-9]*) usage ;; esac
    if [ $# -gt 1 ]; then from="since=$2"; else from=list=true; fi
    dir=$(mktemp -d)
    mkfifo "$dir/events"
    in_place=exec # so that the process to end is curl's
    get watch -N --data-urlencode "$from" >"$dir/events" &
    curl=$!
    trap 'kill "$curl" 2>/dev/null || :; rm -r "$dir"' EXIT
    changes "$1" <"$dir/events"
    ;;
  *)
    echo "$0: no command $command: want read, many or watch" >&2
    exit 2
    ;;
esac
