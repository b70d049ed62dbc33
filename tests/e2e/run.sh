#!/usr/bin/env bash
# Runs the end-to-end tests against the binary in $TOLLGATE, or the one that `cargo test` has built,
# with software that we did not write. Takes the names of tests, as unittest does; see parallel.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if [ -z "${TOLLGATE:-}" ]; then
    TOLLGATE="${CARGO_TARGET_DIR:-target}/debug/tollgate"
    # With the features of the whole workspace, as the tests have them, so that nothing is compiled twice.
    if [ ! -x "$TOLLGATE" ]; then
        cargo build --quiet --workspace --all-features --bin tollgate
    elif [ -n "$(find crates/*/src -newer "$TOLLGATE" -name '*.rs' -print -quit)" ]; then
        echo "run.sh: $TOLLGATE is older than its sources, cargo test builds it anew" >&2
    fi
fi
TOLLGATE="$(realpath "$TOLLGATE")"
python="$(tests/e2e/setup.sh)"
ENVOY="${ENVOY:-$(dirname "$python")/envoy}"
export TOLLGATE ENVOY
exec "$python" -B -W error::ResourceWarning tests/e2e/parallel.py "$@"
