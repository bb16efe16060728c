#!/usr/bin/env bash
# Installs what judges skep from outside (requirements.txt) into a folder of its own: install.sh FOLDER.
# Does nothing when it is there already.
set -euo pipefail
export LC_ALL=C

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
folder="${1:?install.sh FOLDER}"
wanted="$here/requirements.txt"

say() { printf 'judges: %s\n' "$*" >&2; }

if [ -x "$folder/bin/schemathesis" ] && cmp -s "$wanted" "$folder/requirements.txt"; then
    exit 0
fi
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
