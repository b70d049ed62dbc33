"""What the dashboard costs the server: its processor time with and without open dashboards.

    python3 tests/e2e/dashboard_cost.py [SECONDS [KEYS [PAGES]]]

Fills a server with KEYS live keys (1,000,000), then measures SECONDS (20) without and SECONDS with
PAGES (1) streams of events open, in turns, and prints both as parts of a core. Meanwhile nobody asks
for anything. The server is $TOLLGATE, or the debug build, which costs more than a release.
"""

import http.client
import json
import os
import sys
import time

from dashboard_server import DashboardServer
from support import PATIENCE, ask

# Nothing refills while it is measured, so that every key stays live. What is refused fills the lists
# of refused keys, which every event tells.
POLICY = """
[[rule]]
name = "per-user"
key = ["user"]
limit = "2/d"
"""
TOKEN = "measure-measure-measure"
BATCH = 256


def processor(pid):
    """Seconds that a process has used."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fill(port, keys):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    for first in range(0, keys, BATCH):
        requests = [{"attributes": {"user": f"user-{number}"}} for number in range(first, min(first + BATCH, keys))]
        connection.request("POST", "/v1/check/batch", json.dumps({"requests": requests}))
        connection.getresponse().read()
    # As many refused keys as are remembered.
    for first in range(0, 4096, BATCH):
        requests = [{"attributes": {"user": f"user-{number}"}, "cost": 2} for number in range(first, first + BATCH)]
        connection.request("POST", "/v1/check/batch", json.dumps({"requests": requests}))
        connection.getresponse().read()
    connection.close()


def watch(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", "/admin/v1/events", headers={"authorization": f"Bearer {TOKEN}"})
    return connection, connection.getresponse()


def measure(server, seconds, pages):
    """The part of a core that is used, and how many events came."""
    streams = [watch(server.port) for _ in range(pages)]
    pid = server.running.process.pid
    events, size = 0, 0
    began, used = time.monotonic(), processor(pid)
    if not streams:
        # The length of the measurement: there is no event to wait for.
        time.sleep(seconds)
    while streams and time.monotonic() - began < seconds:
        for _, response in streams:
            event = b""
            while not event.endswith(b"\n\n"):
                event += response.readline()
            events, size = events + 1, len(event)
    used, lasted = processor(pid) - used, time.monotonic() - began
    for connection, response in streams:
        response.close()
        connection.close()
    return 100 * used / lasted, events, size


def main(seconds=20, keys=1_000_000, pages=1):
    tokens = f"measure read {TOKEN}\n"
    server = DashboardServer(POLICY, "--admin-tokens", "tokens", "--max-keys", str(2 * keys), tokens=tokens)
    try:
        fill(server.port, keys)
        info = json.loads(ask(server.port, "/admin/v1/info", headers={"authorization": f"Bearer {TOKEN}"}).body)
        print(f"{info['live_keys']:,} live keys, {seconds} s each")
        for _ in range(2):
            without, _, _ = measure(server, seconds, 0)
            with_pages, events, size = measure(server, seconds, pages)
            print(f"without {without:.2f} % of a core, with {pages} {with_pages:.2f} % ({events} events, the last of {size:,} bytes)")
    finally:
        server.remove()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
