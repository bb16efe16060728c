#!/usr/bin/env bash
# Installs what judges skep from outside into a folder of its own: install.sh FOLDER. From PyPI what requirements.txt
# names; from npm, with the node of the agent image, what npm/package-lock.json names. Does nothing where it is there.
set -euo pipefail
export LC_ALL=C

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
folder="${1:?install.sh FOLDER}"
wanted="$here/requirements.txt"
lock="$here/npm/package-lock.json"

say() { printf 'judges: %s\n' "$*" >&2; }

python() {
    if ! python3 -c 'import ensurepip' 2>/dev/null; then
        say 'installing python3-venv'
        root=(); [ "$(id -u)" -eq 0 ] || root=(sudo --)
        "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv \
            >/dev/null </dev/null || { say 'error: no python3 with venv. Remedy: install python3-venv'; exit 1; }
    fi
    say 'installing schemathesis'
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check --no-input --retries 5 --requirement "$wanted"
    cp "$wanted" "$folder/requirements.txt"
}

npm() {
    say 'installing the MCP conformance suite and the MCP Inspector'
    rm -rf "$folder/npm"
    mkdir -p "$folder/npm"
    docker run --rm --user 0:0 -e HOME=/tmp/home -v "$here/npm:/wanted:ro" -v "$folder/npm:/npm" skep-agent:latest \
        bash -euc 'mkdir -p "$HOME"; cp /wanted/package.json /wanted/package-lock.json /npm/
            npm ci --prefix /npm --ignore-scripts --no-fund --no-audit --fetch-retries 5 --loglevel=error
            chown -R "$0" /npm' "$(id -u):$(id -g)" >&2
    cp "$lock" "$folder/npm/installed.json"
}

[ -x "$folder/bin/schemathesis" ] && cmp -s "$wanted" "$folder/requirements.txt" || python
[ -f "$folder/npm/installed.json" ] && cmp -s "$lock" "$folder/npm/installed.json" || npm
