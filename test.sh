#!/usr/bin/env bash
# Runs the checks of the whole project, or a quick part of them. See --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() {
    cat <<'HELP'
Usage: ./test.sh [--long]
       ./test.sh --quick [CRATE...]

Runs formatting, lints, tests, end-to-end tests, examples, checks for other targets, loom models and
documentation, in this order, and stops at the first failure. Prints the time of each step. Needs
Rust 1.88 and Python 3.11 or later. Installs with apt-get, if missing: a C compiler, make,
redis-server, nginx, haproxy, prometheus and chromium; with pip, under target/, what the end-to-end
tests need; with rustup, the other targets.

  --quick  formatting, lints, and the unit and integration tests of the named crates; without a name,
           of the crates that differ from the upstream branch (or from the last commit but one);
           uses cargo nextest if it is installed
  --long   many more random cases, longer fuzzing, and tests that take minutes: about an hour
  --help   this text
HELP
}

mode=full
crates=()
for argument in "$@"; do
    case "$argument" in
        --long) mode=long ;;
        --quick) mode=quick ;;
        --help | -h) usage; exit 0 ;;
        -*) echo "test.sh: unknown option \"$argument\", see ./test.sh --help" >&2; exit 2 ;;
        *) crates+=("$argument") ;;
    esac
done
if [ "${#crates[@]}" -gt 0 ] && [ "$mode" != quick ]; then
    echo "test.sh: crates can be named with --quick only, see ./test.sh --help" >&2
    exit 2
fi
for crate in "${crates[@]}"; do
    if ! [ -d "crates/$crate" ]; then
        echo "test.sh: there is no crate \"$crate\": $(ls crates | tr '\n' ' ')" >&2
        exit 2
    fi
done

# Incremental compilation fills the disk and helps only repeated builds of one crate.
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
target="${CARGO_TARGET_DIR:-target}"

# The times of the steps, printed as they end and together at the end.
times=
step_name=
step_start=0
finish_step() {
    [ -n "$step_name" ] || return 0
    local line
    line="$(printf '%4d s  %s' $((SECONDS - step_start)) "$step_name")"
    echo "<== $line"
    times+="$line"$'\n'
    step_name=
}
step() {
    finish_step
    step_name="$1" step_start=$SECONDS
    printf '\n==> %s\n' "$1"
}
finish() {
    finish_step
    printf '\n%s%4d s  all steps passed\n' "$times" "$SECONDS"
    exit 0
}

if ! command -v cargo >/dev/null; then
    echo "test.sh: cargo is not installed, get Rust from https://rustup.rs" >&2
    exit 1
fi

# Adds a component of the toolchain if rustup can.
add_component() {
    if ! cargo "$1" --version >/dev/null 2>&1 && command -v rustup >/dev/null; then
        rustup component add "$2" || true
    fi
}

# Installs a Debian package if its command is missing.
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
        echo "test.sh: $1 is missing and could not be installed; install the package $2" >&2
        exit 1
    fi
}

# Prints the crates with changes that upstream does not have.
changed_crates() {
    local base
    base="$(git merge-base HEAD '@{upstream}' 2>/dev/null || git rev-parse HEAD~1 2>/dev/null || git rev-parse HEAD)"
    { git diff --name-only "$base"; git ls-files --others --exclude-standard; } \
        | sed -n 's|^crates/\([^/]*\)/.*|\1|p' | sort -u
}

# Runs the unit and integration tests of the named crates. The whole workspace is built: a part of
# it would resolve features differently and compile everything again.
run_tests_of() {
    local filter=
    if cargo nextest --version >/dev/null 2>&1; then
        local rest=()
        for crate in "$@"; do
            # Its tests share servers and clusters within a process; nextest starts a process a test.
            if [ "$crate" = tollgate-redis ]; then
                rest+=("$crate")
            else
                filter+="${filter:+ + }package(=$crate)"
            fi
        done
        set -- "${rest[@]}"
    fi
    [ -z "$filter" ] || cargo nextest run --workspace --all-features --no-fail-fast -E "$filter"
    [ "$#" -eq 0 ] || tests/run_crate_tests.py "$@"
}

step "tools"
add_component fmt rustfmt
add_component clippy clippy
# The allocator and the cryptography of the binary are C.
install cc gcc
install make make
# The tests of the Redis store start real servers.
install redis-server redis-server

if [ "$mode" = long ]; then
    export PROPTEST_CASES="${PROPTEST_CASES:-20000}"
    export FUZZ_SECONDS="${FUZZ_SECONDS:-600}"
    export TOLLGATE_DECISIONS="${TOLLGATE_DECISIONS:-5000000}"
fi

if cargo fmt --version >/dev/null 2>&1; then
    step "formatting"
    cargo fmt --all -- --check
else
    echo "test.sh: rustfmt is not installed, formatting is not checked" >&2
fi

if cargo clippy --version >/dev/null 2>&1; then
    step "lints"
    cargo clippy --workspace --all-targets --all-features -- -D warnings
else
    echo "test.sh: clippy is not installed, lints are not checked" >&2
fi

if [ "$mode" = quick ]; then
    if [ "${#crates[@]}" -eq 0 ]; then
        mapfile -t crates < <(changed_crates)
    fi
    if [ "${#crates[@]}" -gt 0 ]; then
        step "tests of ${crates[*]}"
        run_tests_of "${crates[@]}"
    else
        echo "no crate has changed: no tests to run"
    fi
    finish
fi

step "tests"
# Not nextest: a process for each test would start a Redis server or Cluster for each of hundreds.
# Without a list of targets: `--examples` would build the examples as tests, and the step "examples"
# needs them as programs.
cargo test --workspace --all-features

step "end to end"
TOLLGATE="${TOLLGATE:-$target/debug/tollgate}" tests/e2e/run.sh

step "fuzzing of the HTTP API by its OpenAPI description"
tests/e2e/openapi.sh

step "examples"
# The tests have built them. An example shows something and ends.
for package in tollgate tollgate-server tollgate-tower; do
    for example in "crates/$package"/examples/*.rs; do
        name="$(basename "$example" .rs)"
        # This one is a test, and ran as one.
        [ "$name" != manual_clock_in_a_test ] || continue
        echo "$package: $name"
        timeout 120 "$target/debug/examples/$name" >"$target/example.log" 2>&1 || {
            cat "$target/example.log"
            echo "test.sh: the example $name of $package failed" >&2
            exit 1
        }
    done
done

step "the library without its features"
cargo test -p tollgate --no-default-features --lib --test it
cargo check -p tollgate-tower --no-default-features

# Adds a target to the toolchain; prints a line and fails if that is not possible.
add_target() {
    if rustc --print target-libdir --target "$1" >/dev/null 2>&1 \
        && [ -d "$(rustc --print target-libdir --target "$1")" ]; then
        return
    fi
    if ! command -v rustup >/dev/null || ! rustup target add "$1" >/dev/null 2>&1; then
        echo "skipped: the target $1 cannot be installed"
        return 1
    fi
}

step "other targets"
if add_target armv7-unknown-linux-gnueabihf; then
    cargo check --target armv7-unknown-linux-gnueabihf -p tollgate \
        --features envoy,file,serde,tokio,watch
    cargo check --target armv7-unknown-linux-gnueabihf -p tollgate-tower
fi
if add_target wasm32-unknown-unknown; then
    cargo check --target wasm32-unknown-unknown -p tollgate --features envoy,file,serde,wasm_js
fi
# Its programs run on x86-64: the tests with 32-bit sizes.
if [ "$(uname -sm)" = "Linux x86_64" ] && add_target i686-unknown-linux-musl; then
    cargo test --target i686-unknown-linux-musl -p tollgate --features tokio --lib --test it
fi

step "loom models"
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$target/loom" \
    cargo test --release -p tollgate --features tokio --test loom

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features

if [ "$mode" = long ]; then
    step "long tests"
    cargo test --release --workspace --all-features --lib --tests -- --ignored long_ --nocapture

    step "generated gRPC code"
    cargo run --manifest-path crates/tollgate-server/proto/generate/Cargo.toml \
        --target-dir "$target/generate" -- --check

    step "static binary"
    tests/e2e/static.sh --release
fi

finish
