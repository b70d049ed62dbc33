"""Processes on free ports of this machine: each is waited for, and always stopped."""

import os
import re
import select
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

# Longer than anything takes on a busy machine.
PATIENCE = 30.0

EDGE = """
domain: edge
descriptors:
  - key: user
    rate_limit: { name: per-user, unit: year, requests_per_unit: 3 }
  - key: ip
    rate_limit: { name: per-ip, unit: month, requests_per_unit: 2 }
  - key: banned
    rate_limit: { name: banned, unit: second, requests_per_unit: 0 }
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(what, is_so):
    """Asks until the answer is yes, or gives up loudly; the answer."""
    until = time.monotonic() + PATIENCE
    while True:
        answer = is_so()
        if answer:
            return answer
        if time.monotonic() > until:
            raise AssertionError(f"in vain: {what}")
        time.sleep(0.02)


def is_open(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


class Process:
    """A process that ends with its block, and whose output is kept."""

    def __init__(self, arguments, **options):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(arguments, stderr=self.log, **options)

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def stop(self):
        """Stops it in order; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.log.close()


class Tollgate(Process):
    """`tollgate serve`, on free ports unless told."""

    def __init__(self, *arguments, grpc=0):
        command = [os.environ["TOLLGATE"], "serve", "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"]
        command += ["--grpc", f"127.0.0.1:{grpc}", *map(str, arguments)]
        super().__init__(command, stdout=subprocess.PIPE)
        banner = self.banner()
        port = lambda line: int(re.search(rf"^  {line} .*?127\.0\.0\.1:(\d+)", banner, re.M)[1])
        self.http, self.grpc, self.resp = port("http"), port("grpc"), port("resp")

    def banner(self):
        said, until = "", time.monotonic() + PATIENCE
        while "\ntry\n" not in said:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise AssertionError(f"it does not start: {said} {self.said()}")
            read = os.read(self.process.stdout.fileno(), 4096).decode()
            if not read:
                raise AssertionError(f"it ended: {said} {self.said()}")
            said += read
        return said


class Folder:
    """A folder of Envoy ratelimit files, which goes with its block."""

    def __init__(self, **files):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        for name, text in files.items():
            self.write(name, text)

    def write(self, name, text):
        (self.path / f"{name}.yaml").write_text(text)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()
