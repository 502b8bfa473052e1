#!/usr/bin/env bash
# Makes what packages hold beside the program: man pages, compressed, and completions. scripts/package-files.sh DIRECTORY
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?say where to}
rm -rf "$out"
mkdir -p "$out/man" "$out/completions"
syncd() { go run ./cmd/syncd "$@"; }
syncd man "$out/man"
gzip -9 -n "$out"/man/*.1
syncd completion bash >"$out/completions/syncd.bash"
syncd completion zsh >"$out/completions/_syncd"
syncd completion fish >"$out/completions/syncd.fish"
