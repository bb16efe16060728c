#!/usr/bin/env bash
# Builds one of the images of this folder, when its inputs changed: build.sh NAME [TAG]
# NAME is base, agent, claude-code, codex or opencode; TAG is skep-NAME:latest by default.
# Progress goes to standard error, the image's name alone to standard output.
#
# Inputs. The label skep.inputs is the SHA-256 (hex) of this text, all lines ending in LF:
#   for each regular file of the folder, sorted by the bytes of its path:
#       path relative to the folder, NUL, 1 if its owner may execute it else 0, NUL,
#       SHA-256 of its content (hex)
#   the id of the base image (sha256:...)
#   the SHA-256 (hex) of the CA bundle (what ca.sh prints), or - when it is empty
# An image whose label says the same is used as it is. A file ca-bundle.crt in the folder
# is no input; the bundle is put there for the build alone.
#
#   SKEP_CA_BUNDLE   PEM file with certificates that builds and containers shall trust, or
#                    "none"; by default what ca.sh finds in SSL_CERT_FILE
#   SKEP_REBUILD=1   build without looking at labels and caches
#   PIP_INDEX_URL, NPM_CONFIG_REGISTRY, http_proxy, https_proxy, no_proxy
#                    are handed to the build when they are set
set -euo pipefail
export LC_ALL=C
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

say() { printf 'image: %s\n' "$*" >&2; }
die() { printf 'image: error: %s\n' "$*" >&2; exit 1; }

# The digest that the head of this file describes: inputs FOLDER BASE_ID BUNDLE
inputs() {
    local path mode
    {
        (cd "$1" && find . -type f ! -path ./ca-bundle.crt -printf '%P\n' | sort) |
        while IFS= read -r path; do
            mode=0
            [ -z "$(find "$1/$path" -perm -u+x)" ] || mode=1
            printf '%s\0%s\0%s\n' "$path" "$mode" "$(sha256sum <"$1/$path" | cut -d ' ' -f 1)"
        done
        printf '%s\n' "$2"
        if [ -s "$3" ]; then sha256sum <"$3" | cut -d ' ' -f 1; else printf -- '-\n'; fi
    } | sha256sum | cut -d ' ' -f 1
}

image_field() { docker image inspect --format "$2" "$1" 2>/dev/null || true; }

main() {
    local name="${1:-}" tag base base_id previous bundle digest variable started work
    case "$name" in
        base) exec bash "$here/base.sh" ;;
        agent|claude-code|codex|opencode) ;;
        *) die "usage: build.sh base|agent|claude-code|codex|opencode [TAG]" ;;
    esac
    tag="${2:-skep-$name:latest}"
    command -v docker >/dev/null || die "no docker client found. Remedy: run images/setup.sh, or apt-get install docker.io."
    docker version >/dev/null 2>&1 </dev/null || die "the Docker engine does not answer. Remedy: run images/setup.sh."

    if [ "$name" = agent ]; then base="$(bash "$here/base.sh")"; else base="$(SKEP_REBUILD='' bash "$here/build.sh" agent)"; fi
    base_id="$(image_field "$base" '{{.Id}}')"
    work="$(mktemp -d)"
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" EXIT
    bundle="$work/ca-bundle.crt"
    bash "$here/ca.sh" >"$bundle"
    digest="$(inputs "$here/$name" "$base_id" "$bundle")"
    if [ -z "${SKEP_REBUILD:-}" ] && [ "$(image_field "$tag" '{{index .Config.Labels "skep.inputs"}}')" = "$digest" ]; then
        say "$tag is up to date"
        printf '%s\n' "$tag"
        return
    fi

    mkdir "$work/context"
    cp -a "$here/$name/." "$work/context/"
    rm -f "$work/context/ca-bundle.crt"
    [ ! -s "$bundle" ] || cp "$bundle" "$work/context/"
    set -- --force-rm --build-arg "BASE=$base" --tag "$tag" \
        --label "skep.image=$name" --label "skep.inputs=$digest" --label "skep.base=$base_id"
    [ -z "${SKEP_REBUILD:-}" ] || set -- "$@" --no-cache
    for variable in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY PIP_INDEX_URL NPM_CONFIG_REGISTRY; do
        [ -z "${!variable:-}" ] || set -- "$@" --build-arg "$variable"
    done
    previous="$(image_field "$tag" '{{.Id}}')"
    say "building $tag on $base; certificates added: $(grep -c BEGIN "$bundle" || true)"
    started=$SECONDS
    # The classic builder is what the supervisor uses through the engine's API too.
    if [ -t 2 ] || [ -n "${SKEP_VERBOSE:-}" ]; then
        DOCKER_BUILDKIT=0 docker build "$@" "$work/context" >&2 || die "building $tag failed (see above)"
    else
        DOCKER_BUILDKIT=0 docker build "$@" "$work/context" >"$work/log" 2>&1 || {
            tail -n 40 "$work/log" >&2
            ! grep -qiE 'certificate verify failed|self.signed.certificate|unable to get (local )?issuer' "$work/log" ||
                say "a certificate was not trusted. Remedy: set SKEP_CA_BUNDLE to a PEM file with your proxy's certificates."
            die "building $tag failed (its last lines are above)"
        }
    fi
    # The image that this one replaces goes, unless a container or an image stands on it.
    if [ -n "$previous" ] && [ "$previous" != "$(image_field "$tag" '{{.Id}}')" ]; then
        docker image rm "$previous" >/dev/null 2>&1 || true
    fi
    say "$tag is ready ($((SECONDS - started)) s, $(($(image_field "$tag" '{{.Size}}') / 1000000)) MB)"
    printf '%s\n' "$tag"
}

main "$@"
