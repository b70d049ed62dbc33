#!/usr/bin/env bash
# Runs the end-to-end tests against the debug build, with software that we did not write.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

tests/e2e/setup.sh
cargo build --quiet -p tollgate-cli
# Debian's own, which has the libraries of its packages.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
cd tests/e2e
# In continuous integration nothing may be left out.
PYTHONDONTWRITEBYTECODE=1 exec "$python" -W error::ResourceWarning -m unittest "$@"
