#!/usr/bin/env python3
"""Prints the name of every test of the workspace, sorted, one per line: PACKAGE BINARY TEST.

    tests/list_tests.py > tests/names/after.txt           run ./test.sh first: it builds everything
    tests/list_tests.py --compare BEFORE AFTER MAPPING    every name of BEFORE is in AFTER or mapped

MAPPING has lines of OLD<TAB>NEW<TAB>REASON; NEW is empty for a removed test. A test that only
moved into the binary `it` of its package needs no line.
"""
import json
import os
import re
import subprocess
import sys

# As in test.sh: another value would compile everything again.
os.environ.setdefault("CARGO_INCREMENTAL", "0")
TARGET = os.environ.get("CARGO_TARGET_DIR", "target")


def cargo(*arguments, loom=False):
    """Runs cargo and returns its output."""
    environment = dict(os.environ)
    if loom:
        environment |= {"RUSTFLAGS": "--cfg loom", "CARGO_TARGET_DIR": f"{TARGET}/loom"}
    return subprocess.run(["cargo", *arguments], check=True, env=environment, text=True, stdout=subprocess.PIPE).stdout


def listed(executable, folder):
    """The names that a test binary prints, ignored tests included."""
    output = subprocess.run(
        [executable, "--list", "--format", "terse"], check=True, cwd=folder, text=True, stdout=subprocess.PIPE
    ).stdout
    return re.findall(r"^(.+): test$", output, re.M)


def binaries(*arguments, loom=False):
    """(package, binary, test) of every test binary that this build makes."""
    for line in cargo("test", "--no-run", "--message-format", "json", *arguments, loom=loom).splitlines():
        message = json.loads(line)
        if message["reason"] != "compiler-artifact" or not message["profile"]["test"] or not message["executable"]:
            continue
        folder = os.path.dirname(message["manifest_path"])
        target = message["target"]
        name = "lib" if "lib" in target["kind"] else target["name"]
        for test in listed(message["executable"], folder):
            yield os.path.basename(folder), name, test


def doctests():
    package = None
    output = subprocess.run(
        ["cargo", "test", "--doc", "--workspace", "--all-features", "--", "--list", "--format", "terse"],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ).stdout
    for line in output.splitlines():
        if found := re.match(r"\s*Doc-tests (\S+)", line):
            package = found[1].replace("_", "-")
        elif found := re.match(r"(.+): test$", line):
            # A line number says where the test is, not what it is.
            yield package, "doc", re.sub(r" \(line \d+\)", "", found[1])


def end_to_end():
    python = f"{TARGET}/e2e/venv/bin/python"
    program = """
import unittest
def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite): yield from flat(test)
        else: yield test.id()
print("\\n".join(flat(unittest.TestLoader().discover("tests/e2e"))))
"""
    output = subprocess.run([python, "-B", "-c", program], check=True, text=True, stdout=subprocess.PIPE).stdout
    for test in output.split():
        yield "tests", "e2e", test


def all_tests():
    yield from binaries("--workspace", "--all-features")
    yield from binaries("--release", "-p", "tollgate", "--features", "tokio", "--test", "loom", loom=True)
    if os.path.exists("fuzz/tests/quick.rs"):
        text = open("fuzz/tests/quick.rs", encoding="utf-8").read()
        yield from (("fuzz", "quick", test) for test in re.findall(r"#\[test\]\nfn (\w+)", text))
    yield from doctests()
    yield from end_to_end()


def compare(before, after, mapping):
    """Prints what is missing; returns the exit code."""
    read = lambda path: [line for line in open(path, encoding="utf-8").read().split("\n") if line]
    new, moved, faults = set(read(after)), {}, []
    for line in read(mapping):
        old, target, reason = line.split("\t")
        moved[old] = target
        if not reason:
            faults.append(f"no reason: {old}")
        if target and target not in new:
            faults.append(f"mapped to a test that does not exist: {target}")
    for name in read(before):
        package, binary, test = name.split(" ", 2)
        if name not in new and f"{package} it {binary}::{test}" not in new and name not in moved:
            faults.append(f"missing: {name}")
    print("\n".join(faults) or f"all {len(read(before))} tests are in {after} or mapped; {len(new)} there now")
    return bool(faults)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compare"] and len(sys.argv) == 5:
        sys.exit(compare(*sys.argv[2:]))
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    print("\n".join(sorted({" ".join(test) for test in all_tests()})))
