#!/usr/bin/env bash
# Prints the certificates (PEM) that image builds and containers shall trust besides the
# distribution's own: those of a company's proxy, say. Prints nothing when there are none.
# Needs no file besides itself, so that it can be fed to `bash -s`.
#
#   SKEP_CA_BUNDLE   a PEM file, printed as it is; "none" or empty for nothing
#   SSL_CERT_FILE    used when SKEP_CA_BUNDLE is not set: its certificates without those
#                    that the package ca-certificates brought to this machine, because an
#                    image has its own, and perhaps newer, set of these
set -euo pipefail
export LC_ALL=C

if [ -n "${SKEP_CA_BUNDLE+set}" ]; then
    case "$SKEP_CA_BUNDLE" in ''|none) exit 0 ;; esac
    if [ ! -f "$SKEP_CA_BUNDLE" ] || [ ! -r "$SKEP_CA_BUNDLE" ]; then
        printf "ca: error: SKEP_CA_BUNDLE names %s, which cannot be read. Remedy: correct it, or set it to 'none'.\n" "$SKEP_CA_BUNDLE" >&2
        exit 1
    fi
    exec cat "$SKEP_CA_BUNDLE"
fi

bundle="${SSL_CERT_FILE:-}"
[ -f "$bundle" ] && [ -r "$bundle" ] || exit 0

known=/usr/share/ca-certificates
{
    [ ! -d "$known" ] || find "$known" -type f -name '*.crt' -exec cat {} +
    printf 'skep: end of the known ones\n'
    cat "$bundle"
} | awk '
    { sub(/\r$/, "") }
    /^skep: end of the known ones$/ { print_them = 1; next }
    /^-----BEGIN (TRUSTED )?CERTIFICATE-----$/ { inside = 1; body = ""; block = $0 "\n"; next }
    inside { block = block $0 "\n" }
    /^-----END (TRUSTED )?CERTIFICATE-----$/ {
        inside = 0
        if (!(body in seen) && print_them) printf "%s", block
        seen[body] = 1
        next
    }
    inside { body = body $0 }
'
