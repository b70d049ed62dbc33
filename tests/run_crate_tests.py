#!/usr/bin/env python3
"""Builds the tests of the whole workspace and runs those of the named crates: without cargo nextest."""
import json
import os
import subprocess
import sys

BUILD = ["cargo", "test", "--workspace", "--all-features", "--no-run", "--message-format", "json"]


def executables(crates):
    """(crate folder, test binary) of the named crates."""
    output = subprocess.run(BUILD, check=True, text=True, stdout=subprocess.PIPE).stdout
    for line in output.splitlines():
        message = json.loads(line)
        if message["reason"] != "compiler-artifact" or not message["profile"]["test"]:
            continue
        folder = os.path.dirname(message["manifest_path"])
        if message["executable"] and os.path.basename(folder) in crates:
            yield folder, message["executable"]


def main():
    found = list(executables(sys.argv[1:]))
    if not found:
        sys.exit(f"no tests of {' '.join(sys.argv[1:])}")
    for folder, executable in found:
        print(f"running {executable}", flush=True)
        environment = {**os.environ, "CARGO_MANIFEST_DIR": folder}
        if subprocess.run([executable], cwd=folder, env=environment).returncode:
            sys.exit(1)


if __name__ == "__main__":
    main()
