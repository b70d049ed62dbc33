#!/bin/sh
# The quick form of all fuzz targets, on stable, in less than a minute once built.
set -eu
cd "$(dirname "$0")"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-../target}"
exec cargo test --test quick -- --nocapture
