#!/usr/bin/env bash
# Runs the whole suite several times while two builds of the workspace run beside it: a test that
# depends on an idle machine fails here. See --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'HELP'
Usage: tests/under-load.sh [RUNS]

Runs ./test.sh RUNS times (3 by default). Meanwhile two builds of the workspace run in a loop, each
in its own target folder and from the start every time. Prints the time of each run and stops at
the first failure. The output of the runs and of the builds is in target/under-load/.
HELP
}

case "${1:-}" in
    --help | -h) usage; exit 0 ;;
    '' | [0-9] | [0-9][0-9]) runs="${1:-3}" ;;
    *) echo "under-load.sh: \"$1\" is not a number of runs, see tests/under-load.sh --help" >&2; exit 2 ;;
esac

folder="$(pwd)/target/under-load"
mkdir -p "$folder"
touch "$folder/busy"

build_in_a_loop() {
    while [ -e "$folder/busy" ]; do
        rm -rf "$folder/build-$1"
        CARGO_INCREMENTAL=0 CARGO_TARGET_DIR="$folder/build-$1" \
            cargo build --workspace --all-targets --all-features || true
        echo "built"
    done >"$folder/build-$1.log" 2>&1
}
# Each loop is the leader of a process group, so that its compilers end with it.
set -m
build_in_a_loop 1 &
first=$!
build_in_a_loop 2 &
second=$!
set +m
stop() {
    rm -f "$folder/busy"
    kill -- "-$first" "-$second" 2>/dev/null || true
    wait "$first" "$second" 2>/dev/null || true
    rm -rf "$folder/build-1" "$folder/build-2"
}
trap stop EXIT

for run in $(seq "$runs"); do
    start=$SECONDS
    if ! ./test.sh >"$folder/run-$run.log" 2>&1; then
        tail -n 100 "$folder/run-$run.log"
        echo "run $run of $runs failed after $((SECONDS - start)) s: $folder/run-$run.log" >&2
        exit 1
    fi
    builds="$(cat "$folder"/build-*.log | grep -c '^built$' || true)"
    echo "run $run of $runs passed in $((SECONDS - start)) s, $builds builds finished beside it so far"
done
