"""Helpers of the end-to-end tests: real programs on free ports of 127.0.0.1, always stopped."""

import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The seconds after which waiting fails a test: far longer than anything takes on a busy machine.
PATIENCE = 60
# Below the range that Linux takes the ports of outgoing connections from, so that a port stays free
# between `free_port` and its use, and while a server is restarted.
PORTS = range(22000, 30000)

# A domain of Envoy's with limits that do not end while a test runs.
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


def tollgate_binary():
    """The program under test: as told, or the debug build."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return os.environ.get("TOLLGATE", str(target / "debug" / "tollgate"))


def program(name):
    """The path of a program: of the version that setup.sh installs, or else of the system's."""
    installed = os.path.dirname(sys.executable)
    return shutil.which(name, path=f"{installed}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def free_port():
    """A port that no program listens on and that no other call returns, in this process or another."""
    start = os.getpid() * 61
    for offset in range(len(PORTS)):
        port = PORTS[(start + offset) % len(PORTS)]
        if claim(port):
            return port
    raise AssertionError(f"no free port in {PORTS}")


def claim(port):
    """Reserves a free port for this process until it ends."""
    with socket.socket() as probe, socket.socket(socket.AF_UNIX) as mark:
        try:
            # An abstract name: the second process, or call, that binds it fails.
            mark.bind(f"\0tollgate-e2e-port-{port}")
            probe.bind(("", port))
        except OSError:
            return False
        # The descriptor stays open, and the name taken, until the process ends.
        mark.detach()
    return True


def wait_until(what, condition):
    """Polls until the condition holds, and returns its value; fails with `what` after PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE} s: {what() if callable(what) else what}")
        time.sleep(0.02)


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Running:
    """A program that runs until it is stopped, or its block ends; what it says is kept in a file."""

    def __init__(self, arguments, ports, folder, env=None):
        self.log = pathlib.Path(folder) / (pathlib.Path(arguments[0]).name + ".log")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [str(argument) for argument in arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(env or {})},
            )
        try:
            for port in ports:
                wait_until(lambda: f"{arguments}: {self.said()}", lambda: self.is_up(port))
        except BaseException:
            self.kill()
            raise

    def is_up(self, port):
        self.lives()
        return listens(port)

    def lives(self):
        if self.process.poll() is not None:
            raise AssertionError(f"it ended with {self.process.returncode}: {self.said()}")

    def said(self):
        return self.log.read_text(errors="replace")

    def stop(self, number=signal.SIGTERM):
        """Stops it in order; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode

    def kill(self):
        return self.stop(signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


class Upstream:
    """A small service behind the proxy: says what it was asked, and how often."""

    def __init__(self):
        upstream = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length)
                upstream.asked += 1
                upstream.last_headers = self.headers
                status = 403 if self.path.startswith("/forbidden") else 200
                said = json.dumps({"path": self.path, "body": body.decode()}).encode()
                self.send_response(status)
                self.send_header("content-type", "text/plain")
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(said)

            do_GET = do_POST = do_HEAD = do_PUT = answer

            def log_message(self, *_):
                pass

        self.asked = 0
        self.last_headers = None

        class Server(http.server.ThreadingHTTPServer):
            # For the connections of a flood.
            request_queue_size = 1024

            def handle_error(self, *_):
                """Proxies close connections as they like."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read().decode()

    def header(self, name):
        return self.headers.get(name)

    def __repr__(self):
        return f"{self.status} {dict(self.headers)} {self.body!r}"


def ask(port, path="/", method="GET", headers=None, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        return Answer(connection.getresponse())
    finally:
        connection.close()


class Tollgate:
    """`tollgate serve`, on free ports that stay the same when it is started again."""

    def __init__(self, *arguments, policy=None):
        self.folder = Folder()
        self.arguments = [str(argument) for argument in arguments]
        if policy is not None:
            self.arguments += ["--policy", self.folder.write("limits.toml", policy)]
        self.ports = {name: free_port() for name in ["http", "grpc", "resp"]}
        try:
            self.start()
        except BaseException:
            self.folder.remove()
            raise

    http = property(lambda self: self.ports["http"])
    grpc = property(lambda self: self.ports["grpc"])
    resp = property(lambda self: self.ports["resp"])

    def start(self):
        listen = [part for name, port in self.ports.items() for part in (f"--{name}", f"127.0.0.1:{port}")]
        command = [tollgate_binary(), "serve", *listen, *self.arguments]
        said_before = len(self.said()) if hasattr(self, "running") else 0
        self.running = Running(command, [], self.folder.path)
        wait_until(self.said, lambda: self.is_up(said_before))

    def is_up(self, start):
        """Whether it has printed, after the first `start` characters, what it prints once it listens."""
        self.running.lives()
        return "\ntry\n" in self.said()[start:]

    def said(self):
        return self.running.said()

    def metrics(self):
        """The samples of /metrics: each value by its name and labels, as they are written."""
        lines = ask(self.http, "/metrics").body.splitlines()
        samples = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in samples}

    def rss(self):
        """How much memory it has, in MB."""
        status = pathlib.Path(f"/proc/{self.running.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024

    def kill(self):
        self.running.kill()

    def stop(self):
        """Stops it in order; its exit code."""
        return self.running.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.folder.remove()


def recipe(name, page="docs/proxies.md"):
    """A recipe as the page shows it: the block after <!-- recipe: name -->."""
    text = (ROOT / page).read_text()
    found = re.search(rf"<!-- recipe: {re.escape(name)} -->\n+```\w*\n(.*?)```", text, re.S)
    if not found:
        raise AssertionError(f"no recipe {name} in {page}")
    return found.group(1)


def replaced(text, replacements):
    """The recipe on other addresses; each must be in it, or it is not the recipe that is run."""
    for old, new in replacements.items():
        if old not in text:
            raise AssertionError(f"{old!r} is not in the recipe:\n{text}")
        text = text.replace(old, new)
    return text


class Folder:
    """A folder of files that goes when the test, or its block, ends."""

    def __init__(self, files=None):
        self.path = tempfile.mkdtemp(prefix="tollgate-e2e-")
        for name, text in (files or {}).items():
            self.write(name, text)

    def write(self, name, text):
        """Writes a file at once, so that a server which reads it sees the old or the new text."""
        path, written = pathlib.Path(self.path) / name, pathlib.Path(f"{self.path}.{name}")
        written.write_text(text)
        written.replace(path)
        return str(path)

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()
