"""Clients that mean harm, on every port at once: others are served, and memory stays flat."""

import random
import resource
import socket
import unittest

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from support import PATIENCE, Tollgate, ask, free_port, wait_until

TOKEN = "2f9Qx0uGd7mJw5tZbR3c"
# Of each kind, on each port, in each round.
CONNECTIONS = 25
ROUNDS = 6
# What a round may leave behind, in MB: what allocators keep, and nothing that adds up.
LEFT_BEHIND = 8

HTTP = b"POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 30\r\n\r\n{\"attributes\": "
HTTP_HUGE = b"POST /v1/check HTTP/1.1\r\nhost: t\r\nx: " + b"y" * 200_000 + b"\r\n\r\n"
RESP = b"*5\r\n$8\r\nTHROTTLE\r\n$3\r\nan"
RESP_HUGE = b"*2\r\n$4\r\nECHO\r\n$999999999\r\n" + b"x" * 200_000
# The preface of HTTP/2, empty settings, and the beginning of a frame of headers.
GRPC = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x40\x01\x04"
GRPC_HUGE = GRPC[:-5] + b"\xff\xff\xff\x01\x04\x00\x00\x00\x01" + b"z" * 200_000


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def send(connection, data):
    """The server may have closed already: that is its good right."""
    try:
        connection.sendall(data)
    except OSError:
        pass


class Hostile(unittest.TestCase):
    def setUp(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        self.admin = free_port()
        # A server that waits for an unfinished request waits longer than PATIENCE.
        arguments = ["--admin", f"127.0.0.1:{self.admin}", "--admin-token-read", TOKEN, "--max-idle", "30m"]
        self.tollgate = self.enterContext(Tollgate(*arguments))
        self.channel = self.enterContext(grpc.insecure_channel(f"127.0.0.1:{self.tollgate.grpc}"))
        self.open = []
        self.addCleanup(lambda: [connection.close() for connection in self.open])
        self.random = random.Random(7)

    def kinds(self):
        """Each port with the beginning of something right, and something too large."""
        yield self.tollgate.http, HTTP, HTTP_HUGE
        yield self.admin, HTTP.replace(b"/v1/check", b"/admin/v1/keys/reset"), HTTP_HUGE
        yield self.tollgate.resp, RESP, RESP_HUGE
        yield self.tollgate.grpc, GRPC, GRPC_HUGE

    def attack(self):
        for port, beginning, huge in self.kinds():
            for _ in range(CONNECTIONS):
                # Silent, and a beginning that comes byte by byte and never ends: both stay.
                self.open.append(connect(port))
                slow = connect(port)
                send(slow, beginning[: self.random.randrange(1, len(beginning))])
                self.open.append(slow)
                # Cut off, too large, no protocol at all.
                for data in [beginning, huge, self.random.randbytes(20_000)]:
                    with connect(port) as connection:
                        send(connection, data)
                # Half closed, and the rest is read.
                with connect(port) as half:
                    send(half, beginning)
                    half.shutdown(socket.SHUT_WR)
                    half.settimeout(0.01)
                    try:
                        half.recv(100)
                    except OSError:
                        pass
            self.others_are_served()
            self.assertGreater(self.connections(), CONNECTIONS, "the slow clients are still connected")
        for connection in self.open:
            if self.random.random() < 0.5:
                send(connection, b"\r\n")
            connection.close()
        self.open.clear()

    def others_are_served(self):
        answer = ask(self.tollgate.http, "/v1/check", "POST", body='{"attributes": {"ip": "::1"}}')
        self.assertEqual(answer.status, 200, answer)
        operator = {"Authorization": f"Bearer {TOKEN}"}
        self.assertEqual(ask(self.admin, "/admin/v1/info", headers=operator).status, 200)
        with connect(self.tollgate.resp) as connection:
            connection.sendall(b"PING\r\n")
            self.assertEqual(connection.recv(7, socket.MSG_WAITALL), b"+PONG\r\n")
        health = health_pb2_grpc.HealthStub(self.channel)
        said = health.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE)
        self.assertEqual(said.status, health_pb2.HealthCheckResponse.SERVING)

    def connections(self):
        samples = self.tollgate.metrics().items()
        return sum(value for name, value in samples if name.startswith("tollgate_connections{"))

    def hostile_connections_end(self):
        """Waits until only the channel and the request for the metrics are left."""
        wait_until(lambda: f"{self.connections()} are open", lambda: self.connections() <= 2)

    def test_others_are_served_and_memory_stays_flat(self):
        self.others_are_served()
        self.attack()
        self.hostile_connections_end()
        after_one = self.tollgate.rss()
        for _ in range(ROUNDS):
            self.attack()
        self.hostile_connections_end()
        # An allocator may return memory some time after it is freed; a leak stays.
        grown = lambda: self.tollgate.rss() - after_one
        wait_until(lambda: f"{grown()} MB more after many rounds than after one", lambda: grown() < LEFT_BEHIND)
        self.assertNotIn("panicked", self.tollgate.said())
        self.assertEqual(self.tollgate.stop(), 0)


if __name__ == "__main__":
    unittest.main()
