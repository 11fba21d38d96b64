#!/usr/bin/env bash
# Runs every examples/*.py, each from an empty directory of its own, so that one that opens
# "warehouse" neither finds what an earlier run left nor leaves anything in the repository.
# An example finds files beside it through __file__, not through the working directory.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
count=0

for example in examples/*.py; do
    [ -e "$example" ] || continue
    name=$(basename "$example" .py)
    case $name in _*) continue ;; esac
    work=$root/build/examples/$name
    rm -rf "$work"
    mkdir -p "$work"
    printf -- '-- %s\n' "$example"
    if ! (cd "$work" && "$root/.venv/bin/python" "$root/$example" </dev/null); then
        printf 'failed: %s\n' "$example" >&2
        exit 1
    fi
    count=$((count + 1))
done

printf '%d examples ran\n' "$count"
