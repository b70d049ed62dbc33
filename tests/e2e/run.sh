#!/usr/bin/env bash
# Runs the end-to-end tests against the binary in $TOLLGATE, or the one that it builds, with software
# that we did not write.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if [ -z "${TOLLGATE:-}" ]; then
    cargo build --quiet -p tollgate-cli
    TOLLGATE="${CARGO_TARGET_DIR:-target}/debug/tollgate"
fi
TOLLGATE="$(cd "$(dirname "$TOLLGATE")" && pwd)/$(basename "$TOLLGATE")"
python="$(tests/e2e/setup.sh)"
ENVOY="${ENVOY:-$(dirname "$python")/envoy}"
export TOLLGATE ENVOY
exec "$python" -B -W error::ResourceWarning -m unittest discover --start-directory tests/e2e --verbose "$@"
