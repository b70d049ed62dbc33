"""Runs the end-to-end tests in two processes, one test class at a time in each.

    python3 tests/e2e/parallel.py [-k PATTERN] [NAME ...]

A NAME is a module, a class or a test, as for `python3 -m unittest`. Without a NAME all tests run.
The last line is `N passed, N failed, N skipped`; it fails if a test fails, or if none passes.
"""

import argparse
import collections
import concurrent.futures
import io
import multiprocessing
import pathlib
import sys
import time
import traceback
import unittest

PROCESSES = 2
# The longest classes first, so that no process waits long for the other at the end. Each run prints
# the seconds that the classes took.
LONGEST_FIRST = [
    "DashboardLayout",
    "DashboardLive",
    "Top",
    "RedisProtocol",
    "DashboardKeys",
    "KeyDetail",
    "HAProxyRecipe",
    "HAProxyTimesOut",
    "HAProxyClosed",
]


class Report(unittest.TestResult):
    """Prints each test as it ends: its result, its seconds, its name, and its output if it fails."""

    def __init__(self):
        super().__init__()
        self.counts = collections.Counter()
        self.output = None

    def startTest(self, test):
        super().startTest(test)
        self.started, self.problems, self.skipped_because = time.monotonic(), [], ""
        self.output = sys.stdout = sys.stderr = io.StringIO()

    def stopTest(self, test):
        super().stopTest(test)
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        output, self.output = self.output.getvalue(), None
        # Python prints such a warning where it finds a file or socket that nobody closed.
        if self.problems or "ResourceWarning" in output:
            self.print("failed", test, "".join(["\n", *self.problems, output]))
        else:
            self.print("skipped" if self.skipped_because else "passed", test, self.skipped_because)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if self.output is None:
            self.print("skipped", test, f": {reason}")
        else:
            self.skipped_because = f": {reason}"

    def addError(self, test, err):
        super().addError(test, err)
        problem = "".join(traceback.format_exception(*err))
        if self.output is None:
            # In a fixture of the class, outside of its tests.
            self.print("failed", test, f"\n{problem}")
        else:
            self.problems.append(problem)

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.problems.append(f"{subtest.id()}\n")
            self.addError(subtest, err)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.problems.append("unexpected success\n")

    def print(self, result, test, text):
        self.counts[result] += 1
        seconds = 0 if test.countTestCases() == 0 else time.monotonic() - self.started
        with print_lock:
            print(f"{result:7} {seconds:6.1f} s  {test.id()}{text}", flush=True)


def share_lock(lock):
    global print_lock
    print_lock = lock


def run_class(names):
    """Runs tests of one class, and returns how many had which result, and the seconds they took."""
    started, report = time.monotonic(), Report()
    unittest.defaultTestLoader.loadTestsFromNames(names).run(report)
    return report.counts, time.monotonic() - started


def names_by_class(arguments):
    """The names of the tests that are asked for, by class, longest class first."""
    loader = unittest.TestLoader()
    loader.testNamePatterns = [name if "*" in name else f"*{name}*" for name in arguments.k] or None
    folder = str(pathlib.Path(__file__).resolve().parent)
    suite = loader.loadTestsFromNames(arguments.names) if arguments.names else loader.discover(folder)
    if loader.errors:
        sys.exit("\n".join(loader.errors))
    found, suites = collections.defaultdict(list), [suite]
    while suites:
        for test in suites.pop():
            if isinstance(test, unittest.TestSuite):
                suites.append(test)
            else:
                found[type(test).__qualname__].append(test.id())
    place = {name: place for place, name in enumerate(LONGEST_FIRST)}
    return dict(sorted(found.items(), key=lambda item: (place.get(item[0], len(place)), item[0])))


def main():
    parser = argparse.ArgumentParser(description="Runs the end-to-end tests in two processes.")
    parser.add_argument("-k", action="append", default=[], metavar="PATTERN", help="only tests whose name matches")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a module, class or test")
    tests = names_by_class(parser.parse_args())
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(PROCESSES, context, share_lock, (context.Lock(),))
    with pool:
        running = {name: pool.submit(run_class, names) for name, names in tests.items()}
    done = {name: future.result() for name, future in running.items()}
    slowest = sorted(((seconds, name) for name, (_, seconds) in done.items()), reverse=True)
    print("\nseconds by class:", ", ".join(f"{name} {seconds:.0f}" for seconds, name in slowest))
    counts = sum((counts for counts, _ in done.values()), collections.Counter())
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    sys.exit(counts["failed"] > 0 or counts["passed"] == 0)


if __name__ == "__main__":
    main()
