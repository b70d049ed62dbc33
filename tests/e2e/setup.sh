#!/usr/bin/env bash
# Installs the software that the end-to-end tests run against: see packages.txt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

mapfile -t packages < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' packages.txt)
missing=()
for package in "${packages[@]}"; do
    # nginx-light is what nginx has, and whoever has nginx has it.
    case "$package" in
        nginx-light) PATH="$PATH:/usr/sbin" command -v nginx >/dev/null && continue ;;
        haproxy) PATH="$PATH:/usr/sbin" command -v haproxy >/dev/null && continue ;;
        caddy | redis-server) command -v "$package" >/dev/null && continue ;;
        prometheus) command -v promtool >/dev/null && continue ;;
        python3-yaml) /usr/bin/python3 -c 'import yaml' 2>/dev/null && continue ;;
    esac
    missing+=("$package")
done
if [ "${#missing[@]}" -eq 0 ]; then
    exit 0
fi

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
