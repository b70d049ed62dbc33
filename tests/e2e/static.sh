#!/usr/bin/env bash
# Builds the binary as deploy/docker/Dockerfile does, for musl, and sees that it needs nothing of the
# system: what the image holds beside it is nothing. Takes as long as any first build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

target=x86_64-unknown-linux-musl
if ! rustup target list --installed 2>/dev/null | grep -qx "$target"; then
    rustup target add "$target"
fi
# The allocator in it is C, and must be made for musl, too.
if ! command -v musl-gcc >/dev/null; then
    apt-get install -y musl-tools >/dev/null
fi
export CC_x86_64_unknown_linux_musl="${CC_x86_64_unknown_linux_musl:-musl-gcc}"
cargo build --locked -p tollgate-cli --target "$target" "$@"
profile=debug
for argument in "$@"; do
    if [ "$argument" = --release ]; then profile=release; fi
done
binary="${CARGO_TARGET_DIR:-target}/$target/$profile/tollgate"
said="$(ldd "$binary" 2>&1 || true)"
case "$said" in
    *"statically linked"* | *"not a dynamic executable"*) ;;
    *) printf 'static.sh: it needs libraries:\n%s\n' "$said" >&2; exit 1 ;;
esac
# In an empty root, where it can find nothing but itself, if this user may make one.
empty="$(mktemp -d)"
trap 'rm -rf "$empty"' EXIT
cp "$binary" "$empty/tollgate"
if chroot "$empty" /tollgate --version 2>/dev/null; then
    chroot "$empty" /tollgate serve --print-config >/dev/null
else
    "$binary" --version
fi
echo "static.sh: $binary is static"
