#!/usr/bin/env bash
# Builds an image twice without caches and compares what is inside: path, type, mode, owner,
# link target and content of every file; time stamps aside. check-reproducible.sh [NAME...]
# NAME is base, agent (both by default), claude-code, codex or opencode. Takes minutes.
set -euo pipefail
export LC_ALL=C
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
work="$(mktemp -d)"
made=()

# shellcheck disable=SC2317 # called by the trap
cleanup() {
    [ "${#made[@]}" -eq 0 ] || docker image rm -f "${made[@]}" >/dev/null 2>&1 || true
    docker image prune --force --filter label=skep.stage >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap cleanup EXIT

# The file tree of an image as text, one line for each entry.
tree() {
    local container
    container="$(docker create "$1" true)"
    docker export "$container" | python3 -c '
import hashlib, sys, tarfile
with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as tar:
    for entry in tar:
        content = tar.extractfile(entry).read() if entry.isfile() else b""
        print(entry.name, entry.type.decode(), oct(entry.mode), entry.uid, entry.gid,
              entry.linkname, hashlib.sha256(content).hexdigest())
' | sort
    docker rm "$container" >/dev/null
}

build() {
    local name="$1" tag="$2"
    if [ "$name" != base ]; then
        SKEP_REBUILD=1 bash "$here/build.sh" "$name" "$tag" >/dev/null
        return
    fi
    # The working base image keeps its name: others stand on it.
    local now before
    now="$(bash "$here/base.sh")"
    before="$(docker image inspect --format '{{.Id}}' "$now")"
    now="$(SKEP_BASE_REFRESH=1 bash "$here/base.sh")"
    docker tag "$now" "$tag"
    docker tag "$before" "$now"
}

status=0
[ "$#" -gt 0 ] || set -- base agent
for name in "$@"; do
    for round in 1 2; do
        tag="skep-check-$name:$round"
        build "$name" "$tag"
        made+=("$tag")
        tree "$tag" >"$work/$round"
    done
    if diff "$work/1" "$work/2" >"$work/diff"; then
        printf '%s: same in both builds (%s entries)\n' "$name" "$(wc -l <"$work/1")"
    else
        printf '%s: the two builds differ:\n' "$name"
        head -n 40 "$work/diff"
        status=1
    fi
done
exit "$status"
