#!/usr/bin/env bash
# Makes the base image that all other images stand on, and prints its name.
#
# 1. an image skep-base:* that is already there is used as it is;
# 2. else debian:bookworm-slim, from the engine or from its registry;
# 3. else the same system, made with mmdebstrap from the package mirror that this
#    machine itself is configured to use (Debian or Ubuntu, its own release).
#
# Progress goes to standard error, the image's name alone to standard output. Needs no
# file besides itself, so that it can be fed to `bash -s`.
#
#   SKEP_BASE_REFRESH=1    make it anew although it is there
#   SKEP_BASE_FROM         "registry" or "packages": only that way
#   SKEP_PULL_TIMEOUT      seconds that the registry is given to answer (15); to deliver, 300
#   SOURCE_DATE_EPOCH      latest time stamp inside the image
set -euo pipefail
export LC_ALL=C
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-1735689600}"

UPSTREAM=debian:bookworm-slim
UPSTREAM_TAG=skep-base:bookworm

say() { printf 'base: %s\n' "$*" >&2; }
die() { printf 'base: error: %s\n' "$*" >&2; exit 1; }

have_image() { docker image inspect "$1" >/dev/null 2>&1; }

# Debian's or Ubuntu's code name of this machine; empty elsewhere.
host_codename() {
    [ -r /etc/os-release ] || return 0
    # shellcheck disable=SC1091
    (. /etc/os-release; case "${ID:-}" in debian|ubuntu) printf '%s' "${VERSION_CODENAME:-}";; esac)
}

# Waits at most $1 seconds for the registry's first sign of life (a layer being fetched),
# then as long as the whole delivery may take.
pull_upstream() {
    local answer="${SKEP_PULL_TIMEOUT:-15}" log pid waited=0 status=0
    log="$(mktemp)"
    timeout 300 docker pull "$UPSTREAM" >"$log" 2>&1 </dev/null &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        if [ "$waited" -ge $((answer * 5)) ] && ! grep -q 'Pulling' "$log"; then
            kill "$pid" 2>/dev/null || true
        fi
        sleep 0.2
        waited=$((waited + 1))
    done
    wait "$pid" || status=$?
    [ "$status" -eq 0 ] || say "the registry is not reachable ($(tail -n 1 "$log" | cut -c 1-160))"
    rm -f "$log"
    return "$status"
}

from_registry() {
    if [ -n "${SKEP_BASE_REFRESH:-}" ] || ! have_image "$UPSTREAM"; then
        say "asking the registry for $UPSTREAM"
        pull_upstream || return 1
    fi
    printf 'FROM %s\nLABEL skep.image=base skep.base.source=registry\n' "$UPSTREAM" |
        DOCKER_BUILDKIT=0 docker build --quiet --tag "$UPSTREAM_TAG" - >/dev/null 2>&1 ||
        die "the engine could not label $UPSTREAM as $UPSTREAM_TAG"
    say "$UPSTREAM_TAG is $UPSTREAM"
    printf '%s\n' "$UPSTREAM_TAG"
}

# What apt is configured to fetch, in either format of its sources: URI|suite|component|origin.
# Origins are known once lists were fetched; without lists the rest is.
configured_targets() {
    # shellcheck disable=SC2016 # the fields are for apt
    {
        apt-get indextargets --format '$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)' 'Identifier: Packages'
        apt-get indextargets --no-release-info --format '$(REPO_URI)|$(RELEASE)|$(COMPONENT)|' 'Identifier: Packages'
    } 2>/dev/null | sort -u || true
}

# One `deb` line for each suite and component that this machine gets its own release from.
host_sources() {
    local id="$1" codename="$2" uri suite component origin options='' keyring
    keyring="/usr/share/keyrings/$id-archive-keyring.gpg"
    [ ! -r "$keyring" ] || options="[signed-by=$keyring] "
    configured_targets | while IFS='|' read -r uri suite component origin; do
        case "$suite" in
            "$codename"|"$codename-updates"|"$codename-security"|"$codename/updates") ;;
            *) continue ;;
        esac
        case "$component" in main) ;; universe) [ "$id" = ubuntu ] || continue ;; *) continue ;; esac
        # Cloud images name a file with a list of mirrors; the first of them serves.
        case "$uri" in
            mirror+file:*) uri="$(awk '$1 !~ /^(#|$)/ {print $1; exit}' "/${uri#mirror+file:/}")" ;;
        esac
        case "$uri" in http://*|https://*) ;; *) continue ;; esac
        # Another vendor may use the same names of suites and components.
        case "$origin|$uri" in
            [Dd]ebian\|*|[Uu]buntu\|*) ;;
            \|*"/$id"*) ;;
            *) continue ;;
        esac
        printf 'deb %s%s %s %s\n' "$options" "${uri%/}/" "$suite" "$component"
    done | sort -u
}

from_packages() {
    local codename id arch name sources inside include='' work
    codename="$(host_codename)"
    [ -n "$codename" ] || die "no registry is reachable, and only Debian and Ubuntu machines can make the base image from packages. Remedy: make '$UPSTREAM' known to the engine (docker load), or set a reachable registry mirror in the engine's configuration."
    command -v mmdebstrap >/dev/null ||
        die "no registry is reachable, and mmdebstrap is not installed. Remedy: apt-get install mmdebstrap (images/setup.sh does it)."
    # shellcheck disable=SC1091
    id="$(. /etc/os-release; printf '%s' "$ID")"
    arch="$(dpkg --print-architecture)"
    name="skep-base:$codename"
    sources="$(host_sources "$id" "$codename")"
    [ -n "$sources" ] ||
        die "apt on this machine has no http(s) source for $id $codename. Remedy: add one below /etc/apt/sources.list.d, then try again."
    # Credentials of a mirror stay on the host.
    inside="$(printf '%s\n' "$sources" | sed -E 's#(https?://)[^/@ ]*@#\1#; s# \[signed-by=[^]]*\]##')"
    case "$inside" in *https://*) include=--include=ca-certificates ;; esac

    work="$(mktemp -d)"
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" EXIT
    printf '%s\n' "$sources" >"$work/host.list"
    printf '%s\n' "$inside" >"$work/image.list"
    say "making $name ($arch) from this machine's packages; this takes about a minute"
    # Never remove anything below $1/tmp in a hook: the configuration that keeps mmdebstrap's
    # apt away from the host's own lists is there.
    # What the slim images of Debian leave out is left out here too. Time stamps are not
    # checked, because a mirror may be a frozen snapshot.
    # shellcheck disable=SC2016 # $1 is for mmdebstrap's shell
    mmdebstrap --quiet --variant=minbase --format=tar --architectures="$arch" \
        ${include:+"$include"} \
        --aptopt='Acquire::Check-Valid-Until "false"' \
        --aptopt='Acquire::Languages "none"' \
        --aptopt='APT::Install-Recommends "false"' \
        --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/info/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-include=/usr/share/doc/*/copyright' \
        --customize-hook='rm -f "$1"/etc/apt/sources.list.d/* "$1"/etc/hostname "$1"/etc/resolv.conf' \
        --customize-hook="upload $work/image.list /etc/apt/sources.list" \
        --customize-hook='chmod 644 "$1"/etc/apt/sources.list' \
        --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/* "$1"/var/log/* "$1"/var/lib/dpkg/*-old "$1"/etc/*-' \
        --customize-hook=': >"$1"/etc/machine-id; rm -f "$1"/var/lib/dbus/machine-id' \
        --customize-hook='find "$1" -xdev -name __pycache__ -prune -exec rm -rf {} +' \
        "$codename" "$work/root.tar" "$work/host.list" >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        die "mmdebstrap failed (its last lines are above). Remedy: check that 'apt-get update' works on this machine."
    }
    docker import \
        --change 'LABEL skep.image=base' \
        --change 'LABEL skep.base.source=packages' \
        --change "LABEL skep.base.suite=$codename" \
        --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
        --change 'CMD ["bash"]' \
        "$work/root.tar" "$name" >/dev/null || die "the engine refused to import $name"
    say "$name is ready ($(($(stat -c %s "$work/root.tar") / 1048576)) MiB)"
    printf '%s\n' "$name"
}

main() {
    local codename name
    command -v docker >/dev/null || die "no docker client found. Remedy: run images/setup.sh, or apt-get install docker.io."
    docker version >/dev/null 2>&1 </dev/null || die "the Docker engine does not answer. Remedy: run images/setup.sh."
    codename="$(host_codename)"
    if [ -z "${SKEP_BASE_REFRESH:-}" ]; then
        for name in "$UPSTREAM_TAG" ${codename:+"skep-base:$codename"}; do
            if have_image "$name"; then
                say "$name is there"
                printf '%s\n' "$name"
                return
            fi
        done
    fi
    case "${SKEP_BASE_FROM:-}" in
        registry) from_registry || die "could not get $UPSTREAM" ;;
        packages) from_packages ;;
        '') from_registry || from_packages ;;
        *) die "SKEP_BASE_FROM is '${SKEP_BASE_FROM}'; it may be 'registry' or 'packages'" ;;
    esac
}

main "$@"
