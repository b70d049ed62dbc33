"""The Redis protocol, asked by redis-py; and the same keys over gRPC."""

import collections
import socket
import unittest

import grpc
import redis
from envoy.extensions.common.ratelimit.v3 import ratelimit_pb2
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc

from support import PATIENCE, Tollgate, wait_until


# A limit that gives nothing back while a test runs.
POLICY = """
[[rule]]
name = "per-user"
key = ["user"]
limit = "20/day"
"""


class RedisProtocol(unittest.TestCase):
    def setUp(self):
        self.tollgate = self.enterContext(Tollgate(policy=POLICY))

    def client(self, protocol):
        client = redis.Redis(port=self.tollgate.resp, protocol=protocol, socket_timeout=PATIENCE)
        self.addCleanup(client.close)
        return client

    def test_both_protocols_of_an_unchanged_client(self):
        for protocol in (2, 3):
            client = self.client(protocol)
            self.assertTrue(client.ping())
            throttle = lambda: client.execute_command("CL.THROTTLE", f"key{protocol}", 1, 1, 3600)
            self.assertEqual(throttle()[:4], [0, 2, 1, -1])
            self.assertEqual(throttle()[:4], [0, 2, 0, -1])
            limited = throttle()
            self.assertEqual(limited[:3], [1, 2, 0])
            self.assertTrue(0 < limited[3] <= 3600)
            with client.pipeline(transaction=False) as pipeline:
                for _ in range(20):
                    pipeline.execute_command("THROTTLE", f"many{protocol}", 10, 10, 3600)
                allowed = [reply[0] for reply in pipeline.execute()]
            self.assertEqual(allowed, [1] * 10 + [0] * 10)
            with self.assertRaises(redis.ResponseError):
                client.execute_command("NONSENSE")
            self.assertTrue(client.ping(), "the connection goes on")

    def test_transactional_pipelines_of_an_unchanged_client(self):
        for protocol in (2, 3):
            client = self.client(protocol)
            with client.pipeline() as pipeline:
                for _ in range(20):
                    pipeline.execute_command("THROTTLE", f"transaction{protocol}", 10, 10, 3600)
                pipeline.execute_command("TG.PEEK", "user", "ben")
                replies = pipeline.execute()
            self.assertEqual([reply[0] for reply in replies[:20]], [1] * 10 + [0] * 10)
            peeked = replies[20]
            if protocol == 2:
                peeked = dict(zip(peeked[::2], peeked[1::2]))
            self.assertEqual((peeked[b"remaining"], peeked[b"degraded"], peeked[b"leased"]), (20, 0, 0))
            # A long one, whose answers go out in pieces.
            with client.pipeline() as pipeline:
                for _ in range(1500):
                    pipeline.execute_command("TG.PEEK", "user", "ben")
                self.assertEqual(len(pipeline.execute()), 1500)
            # Wrong values are answers, and the others are run.
            with client.pipeline() as pipeline:
                pipeline.execute_command("THROTTLE", f"some{protocol}", 10, 10, 3600)
                pipeline.execute_command("THROTTLE", f"some{protocol}", 10, 10, "soon")
                replies = pipeline.execute(raise_on_error=False)
            self.assertEqual(replies[0][:3], [1, 10, 9])
            self.assertIsInstance(replies[1], redis.ResponseError)
            # Unknown commands reject all.
            with client.pipeline() as pipeline:
                pipeline.execute_command("THROTTLE", f"none{protocol}", 10, 10, 3600)
                pipeline.execute_command("NONSENSE")
                with self.assertRaisesRegex(redis.ResponseError, "unknown command 'NONSENSE'"):
                    pipeline.execute()
            fresh = client.execute_command("THROTTLE", f"none{protocol}", 10, 10, 3600)
            self.assertEqual(fresh[:3], [1, 10, 9], "nothing was taken")

    def test_databases_and_deleted_keys_of_an_unchanged_client(self):
        throttle = lambda client: client.execute_command("CL.THROTTLE", "ana", 0, 1, 3600)[0]
        first = self.client(3)
        other = redis.Redis(port=self.tollgate.resp, db=7, socket_timeout=PATIENCE)
        self.addCleanup(other.close)
        self.assertEqual([throttle(first), throttle(first), throttle(other), throttle(other)], [0, 1, 0, 1])
        self.assertEqual(first.delete("ana", "ben"), 1)
        self.assertEqual([throttle(first), throttle(other)], [0, 1])
        with self.assertRaisesRegex(redis.ResponseError, "from 0 to 15"):
            self.client(2).execute_command("SELECT", 16)

    def test_guesses_at_the_password_are_slowed_down_and_logged(self):
        tollgate = self.enterContext(Tollgate("--resp-password", "sesame"))
        with socket.create_connection(("127.0.0.1", tollgate.resp), timeout=PATIENCE) as client:
            client.sendall(b"AUTH wrong\r\n" * 1000 + b"QUIT\r\n")
            with client.makefile("rb") as replies:
                codes = collections.Counter(line.split()[0] for line in replies)
        # Ten in a minute are looked at.
        self.assertIn(codes[b"-WRONGPASS"], range(10, 20))
        self.assertEqual(codes, {b"-WRONGPASS": codes[b"-WRONGPASS"], b"-ERR": 1000 - codes[b"-WRONGPASS"], b"+OK": 1})
        logged = [line for line in tollgate.said().splitlines() if "gave a wrong password" in line]
        self.assertIn(len(logged), range(1, 50), tollgate.said())
        self.assertNotIn("127.0.0.1", logged[0], "no client is named unless the operator wants it")
        client = redis.Redis(port=tollgate.resp, password="sesame", socket_timeout=PATIENCE)
        self.addCleanup(client.close)
        wait_until("its time is up", lambda: self.is_let_in(client))

    @staticmethod
    def is_let_in(client):
        try:
            return client.ping()
        except redis.RedisError:
            return False

    def test_one_state_with_grpc(self):
        client = self.client(3)
        before = client.execute_command("TG.CHECK", "COST", 10, "user", "42")
        with grpc.insecure_channel(f"127.0.0.1:{self.tollgate.grpc}") as channel:
            entries = [ratelimit_pb2.RateLimitDescriptor.Entry(key="user", value="42")]
            descriptor = ratelimit_pb2.RateLimitDescriptor(entries=entries)
            request = rls_pb2.RateLimitRequest(domain="any", descriptors=[descriptor], hits_addend=5)
            stub = rls_pb2_grpc.RateLimitServiceStub(channel)
            status = stub.ShouldRateLimit(request, timeout=PATIENCE).statuses[0]
        self.assertEqual(before[b"remaining"], 10)
        self.assertEqual(status.limit_remaining, 5)
        self.assertEqual(status.current_limit.name, "per-user")
