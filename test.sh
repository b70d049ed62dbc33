#!/usr/bin/env bash
# Checks everything there is to check. See --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() {
    cat <<'HELP'
Usage: ./test.sh [--long]

Formatting, lints, tests, end-to-end tests, examples, loom models, quick fuzzing and documentation, in this order;
stops at the first failure. Needs Rust 1.88 and Python 3.11 or later; installs with apt-get what is missing of a C compiler,
make, redis-server, nginx, haproxy, caddy, prometheus and chromium, and with pip, under target/, what the end-to-end tests need.

  --long   many more random cases and longer fuzzing: an hour instead of minutes
  --help   this text
HELP
}

long=no
for argument in "$@"; do
    case "$argument" in
        --long) long=yes ;;
        --help | -h) usage; exit 0 ;;
        *) echo "test.sh: unknown option \"$argument\", see ./test.sh --help" >&2; exit 2 ;;
    esac
done

# Everything is compiled once here: what serves a second build of the same file only fills the disk.
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"

# Every step says how long everything before it took.
step() { printf '\n==> %s (%d:%02d)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)); }
skip() { printf '\n==> %s: skipped, %s\n' "$1" "$2"; }

if ! command -v cargo >/dev/null; then
    echo "test.sh: cargo is not installed, get Rust from https://rustup.rs" >&2
    exit 1
fi

# Components are asked for only where rustup is there to bring them.
bring() {
    if ! cargo "$1" --version >/dev/null 2>&1 && command -v rustup >/dev/null; then
        rustup component add "$2" || true
    fi
}
bring fmt rustfmt
bring clippy clippy

# Installs a package of Debian where the command that it brings is missing.
install() {
    if command -v "$1" >/dev/null; then
        return
    fi
    as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        as_root=(sudo -n)
    fi
    "${as_root[@]}" apt-get install -y "$2" >/dev/null 2>&1 \
        || { "${as_root[@]}" apt-get update && "${as_root[@]}" apt-get install -y "$2"; } >/dev/null 2>&1 \
        || true
    if ! command -v "$1" >/dev/null; then
        echo "test.sh: $1 is not installed and could not be, install the package $2" >&2
        exit 1
    fi
}
# The binary's allocator and cryptography are C.
install cc gcc
install make make
# The tests of the Redis store start real servers.
install redis-server redis-server

if [ "$long" = yes ]; then
    export PROPTEST_CASES="${PROPTEST_CASES:-20000}"
    export FUZZ_SECONDS="${FUZZ_SECONDS:-600}"
    export TOLLGATE_DECISIONS="${TOLLGATE_DECISIONS:-5000000}"
fi

if cargo fmt --version >/dev/null 2>&1; then
    step "formatting"
    cargo fmt --all -- --check
else
    skip "formatting" "rustfmt is not installed"
fi

if cargo clippy --version >/dev/null 2>&1; then
    step "lints"
    cargo clippy --workspace --all-targets --all-features -- -D warnings
else
    skip "lints" "clippy is not installed"
fi

step "tests"
cargo test --workspace --all-features

step "end to end"
tests/e2e/run.sh

step "a fuzzer asks everything that /openapi.json describes"
tests/e2e/openapi.sh

if [ "$long" = yes ]; then
    step "the binary of the image needs nothing of the system"
    tests/e2e/static.sh --release
fi

step "tests of the library without its features"
cargo test -p tollgate --no-default-features
cargo check -p tollgate-tower --no-default-features

# Built as the tests were, so that nothing is compiled twice. An example shows something and ends:
# one that serves for ever is a fault.
cargo build --quiet --workspace --all-features --examples
for package in tollgate tollgate-server tollgate-tower; do
    for example in "crates/$package"/examples/*.rs; do
        name="$(basename "$example" .rs)"
        step "example $name of $package"
        timeout 60 "${CARGO_TARGET_DIR:-target}/debug/examples/$name"
    done
done

step "loom models"
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom" \
    cargo test --release -p tollgate --features tokio --test loom

step "fuzzing"
fuzz/quick.sh

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features

step "all checks passed"
