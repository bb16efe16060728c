#!/usr/bin/env bash
# Gets a machine ready to build and run skep: a Docker engine that answers, a C compiler
# with the static C library, and what the base image is made with. Installs what is missing
# (Debian and Ubuntu), starts the engine when it is down, and leaves alone what works.
#
#   SKEP_YES=1   install without asking (so do CI=true, and root without a terminal)
set -euo pipefail
export LC_ALL=C

LOG=/var/log/skep-dockerd.log
WAIT=60

say() { printf 'setup: %s\n' "$*" >&2; }
die() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

# Runs a command as root.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -- "$@"; fi
}

# Whether root can be had: already, or by sudo (which may ask for a password on a terminal).
can_be_root() {
    [ "$(id -u)" -eq 0 ] && return 0
    command -v sudo >/dev/null || return 1
    sudo -n true 2>/dev/null || [ -t 0 ]
}

client() { timeout 10 docker "$@" </dev/null; }

# Whether the engine answers to its client. A hanging engine counts as not answering.
answers() { command -v docker >/dev/null && client version >/dev/null 2>&1; }

# The packages that are missing, one a line.
missing_packages() {
    command -v dockerd >/dev/null || answers || {
        echo docker.io
        echo iptables
    }
    # Later releases ship the client in a package of its own.
    command -v docker >/dev/null ||
        ! apt-cache show docker-cli >/dev/null 2>&1 || echo docker-cli
    has_base || command -v mmdebstrap >/dev/null || echo mmdebstrap
    command -v cc >/dev/null || echo gcc
    has_static_libc || echo libc6-dev
    command -v make >/dev/null || echo make
    command -v git >/dev/null || echo git
    [ -e /etc/ssl/certs/ca-certificates.crt ] || echo ca-certificates
}

# What the base image is made from is there already.
has_base() {
    answers && [ -n "$(client image ls --quiet skep-base; client image ls --quiet debian:bookworm-slim)" ]
}

# The init inside the containers is linked statically.
has_static_libc() {
    local file
    command -v cc >/dev/null || return 1
    file="$(cc -print-file-name=libc.a 2>/dev/null)" && [ -e "$file" ]
}

distribution() {
    # shellcheck disable=SC1091
    [ ! -r /etc/os-release ] || (. /etc/os-release; printf '%s' "${ID:-unknown}")
}

may_install() {
    local reply
    [ -z "${SKEP_YES:-}" ] && [ "${CI:-}" != true ] || return 0
    if [ -t 0 ] && [ -t 2 ]; then
        printf 'setup: skep needs these packages: %s\nsetup: install them now with apt-get? [Y/n] ' "$*" >&2
        read -r reply || reply=n
        case "$reply" in ''|[Yy]|[Yy][Ee][Ss]) return 0 ;; *) return 1 ;; esac
    fi
    [ "$(id -u)" -eq 0 ]
}

install_packages() {
    local packages log
    case "$(distribution)" in
        debian|ubuntu) ;;
        *) # Elsewhere only what is essential is insisted on.
            command -v dockerd >/dev/null || answers ||
                die "no Docker engine found, and only Debian and Ubuntu are set up automatically. Remedy: install Docker (engine and client) by your distribution's means, then try again."
            command -v cc >/dev/null || die "no C compiler (cc) found. Remedy: install gcc or clang with the C library's development files."
            has_static_libc || say "warning: the static C library (libc.a) was not found; linking the init may fail"
            return 0 ;;
    esac
    mapfile -t packages < <(missing_packages)
    [ "${#packages[@]}" -gt 0 ] || return 0
    can_be_root ||
        die "these packages are missing: ${packages[*]}. Installing them needs root. Remedy: as root, run 'apt-get install ${packages[*]}', then try again."
    may_install "${packages[@]}" ||
        die "not installed: ${packages[*]}. Remedy: run 'apt-get install ${packages[*]}', or set SKEP_YES=1 to have it done."
    say "installing ${packages[*]}"
    log="$(mktemp)"
    if ! { as_root apt-get -o Acquire::Retries=3 update -qq &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 \
            install -y -qq --no-install-recommends "${packages[@]}"; } >"$log" 2>&1 </dev/null; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        die "apt-get failed (its last lines are above). Remedy: repair it, then try again."
    fi
    rm -f "$log"
    # On a release with a separate client it is known only after the lists are fetched.
    if ! command -v docker >/dev/null && apt-cache show docker-cli >/dev/null 2>&1; then
        say "installing docker-cli"
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker-cli >/dev/null </dev/null ||
            die "apt-get could not install docker-cli"
    fi
    hash -r
}

# A killed engine leaves its pid files. One whose pid is a zombie or another program's now would keep the
# next engine from starting.
clear_stale_pids() {
    local name file pid
    for name in dockerd:/var/run/docker.pid containerd:/var/run/docker/containerd/containerd.pid; do
        file=${name#*:}
        pid=$(as_root cat "$file" 2>/dev/null) || continue
        if ! grep -qsx "${name%%:*}" "/proc/$pid/comm" || grep -qs '^State:.Z' "/proc/$pid/status"; then
            as_root rm -f "$file"
        fi
    done
}

# Starts the engine by the means that this machine has; answers at once.
start_engine() {
    clear_stale_pids
    if [ -d /run/systemd/system ]; then
        say "starting the Docker engine (systemd)"
        as_root systemctl start docker.service </dev/null >&2 ||
            die "systemd could not start it. Remedy: see 'systemctl status docker' and 'journalctl -u docker'."
        return
    fi
    if [ -e /etc/init.d/docker ] && command -v service >/dev/null; then
        say "starting the Docker engine (service)"
        if as_root service docker start </dev/null >/dev/null 2>&1; then
            LOG=/var/log/docker.log
            return
        fi
        say "the service did not start; starting dockerd itself"
    fi
    say "starting the Docker engine (dockerd, log in $LOG)"
    # shellcheck disable=SC2016 # for the inner shell
    as_root sh -c 'setsid dockerd >"$1" 2>&1 </dev/null &' sh "$LOG"
}

# What the engine's log says, for a failure.
show_log() {
    say "the end of the engine's log:"
    if [ -d /run/systemd/system ]; then
        as_root journalctl -u docker -n 20 --no-pager >&2 2>/dev/null || true
    else
        as_root tail -n 20 "$LOG" >&2 2>/dev/null || true
    fi
}

# Whether there is a process named dockerd.
engine_runs() {
    grep -qsx dockerd /proc/[0-9]*/comm
}

wait_for_engine() {
    local second
    for ((second = 0; second < WAIT; second++)); do
        if answers; then
            [ ! -t 2 ] || [ "$second" -eq 0 ] || printf '\n' >&2
            return 0
        fi
        ! denied || die "the engine runs, but $(id -un) may not use it. Remedy: 'sudo usermod -aG docker $(id -un)', log in anew, then try again."
        if [ "$second" -ge 3 ] && ! engine_runs; then
            show_log
            die "the Docker engine ended right after its start. Remedy: its log is above."
        fi
        if [ -t 2 ]; then
            printf '\rsetup: waiting for the engine, %d s of %d ' "$second" "$WAIT" >&2
        elif [ $((second % 10)) -eq 9 ]; then
            say "still waiting for the engine ($((second + 1)) s of $WAIT)"
        fi
        sleep 1
    done
    show_log
    die "the Docker engine did not answer within $WAIT s. Remedy: its log is above."
}

# Whether only the rights on the engine's socket are in the way.
denied() {
    local error
    error="$(client version 2>&1 >/dev/null || true)"
    case "$error" in *[Pp]ermission\ denied*) return 0 ;; *) return 1 ;; esac
}

main() {
    command -v cargo >/dev/null ||
        die "no Rust toolchain (cargo) found. Remedy: install Rust with rustup, then try again."
    if [ -n "${DOCKER_HOST:-}" ] && command -v docker >/dev/null && ! answers; then
        die "DOCKER_HOST is $DOCKER_HOST, and no engine answers there. Remedy: start that engine, or unset DOCKER_HOST to use this machine's."
    fi
    install_packages
    command -v docker >/dev/null ||
        die "the engine is there, but its client (docker) is not. Remedy: install docker-cli (or docker.io)."
    if answers; then
        say "ready (Docker engine $(client version --format '{{.Server.Version}}'))"
        return
    fi
    ! denied || die "the engine runs, but $(id -un) may not use it. Remedy: 'sudo usermod -aG docker $(id -un)', log in anew, then try again."
    can_be_root ||
        die "the Docker engine is not running, and starting it needs root. Remedy: as root, run 'systemctl start docker' or 'service docker start'."
    start_engine
    wait_for_engine
    say "ready (Docker engine $(client version --format '{{.Server.Version}}'))"
}

main "$@"
