#!/usr/bin/env bash
# Lets a schema fuzzer call every operation of /openapi.json on a running server: no answer is a server
# error, and every answer is as described. $FUZZ_API_EXAMPLES requests are generated for each operation, with
# a fixed seed, so that a slow machine tests the same; with $FUZZ_API_SECONDS as many as fit into that time.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/../.."

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
tollgate="${TOLLGATE:-$target/debug/tollgate}"
venv="$target/e2e-openapi"
bound=(--max-examples "${FUZZ_API_EXAMPLES:-175}")
if [ -n "${FUZZ_API_SECONDS:-}" ]; then
    bound=(--max-time "$FUZZ_API_SECONDS")
fi

if ! [ -x "$tollgate" ]; then
    echo "openapi.sh: $tollgate is not built, run: cargo build --workspace --all-features --bin tollgate" >&2
    exit 1
fi
if ! [ -x "$venv/bin/schemathesis" ]; then
    if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet 'schemathesis>=4.32,<5'; }; then
        echo "openapi.sh: schemathesis could not be installed with pip" >&2
        [ -z "${CI:-}" ] && exit 0
        exit 1
    fi
fi

folder="$(mktemp -d)"
token="fuzzer-fuzzer-fuzzer"
server=
stop() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" 2>/dev/null || true
    rm -rf "$folder"
}
trap stop EXIT

printf 'fuzzer write %s\n' "$token" >"$folder/tokens"
chmod 600 "$folder/tokens"
cp examples/policies/default.toml "$folder/policy.toml"
"$tollgate" serve --http 127.0.0.1:0 --grpc off --resp off --policy "$folder/policy.toml" \
    --admin-tokens "$folder/tokens" --audit "$folder/audit.jsonl" >"$folder/said" 2>"$folder/log" &
server=$!
# Until it prints its addresses, ends, or 60 seconds have passed.
for _ in $(seq 600); do
    grep -q '/metrics' "$folder/said" && break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
done
url="$(sed -n 's|^  http      \(http://.*\)|\1|p' "$folder/said")"
if [ -z "$url" ]; then
    echo "openapi.sh: the server did not start:" >&2
    cat "$folder/said" "$folder/log" >&2
    exit 1
fi

# A stream of events has no end to wait for. A denial that is enforced, a reservation that is gone and a
# policy that is refused are answers like others: what must hold is that they are problem+json as described.
# How long a request takes to generate or to answer says nothing on a busy machine.
cd "$folder"
PYTHONPATH="$here" SCHEMATHESIS_HOOKS=schemathesis_hooks "$venv/bin/schemathesis" run "$url/openapi.json" \
    --header "Authorization: Bearer $token" \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,negative_data_rejection \
    --exclude-path /admin/v1/events \
    --phases examples,coverage,fuzzing \
    "${bound[@]}" --seed 1 --generation-database none --workers 1 --request-timeout 60 \
    --suppress-health-check too_slow --no-color --warnings off

if ! kill -0 "$server" 2>/dev/null; then
    echo "openapi.sh: the server has ended:" >&2
    cat "$folder/log" >&2
    exit 1
fi
if grep -q "panicked" "$folder/log"; then
    cat "$folder/log" >&2
    exit 1
fi
