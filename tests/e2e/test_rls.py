"""The rate limit service, asked by grpcio with Envoy's own messages."""

import json
import unittest

import grpc
from envoy.extensions.common.ratelimit.v3 import ratelimit_pb2
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc
from envoy.type.v3 import ratelimit_unit_pb2
from google.protobuf import descriptor_pool
from google.protobuf.wrappers_pb2 import UInt64Value
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from support import EDGE, PATIENCE, Folder, Tollgate, wait_until

OK, OVER = rls_pb2.RateLimitResponse.OK, rls_pb2.RateLimitResponse.OVER_LIMIT
YEAR, MONTH = rls_pb2.RateLimitResponse.RateLimit.YEAR, rls_pb2.RateLimitResponse.RateLimit.MONTH


def descriptor(hits=None, limit=None, give_back=False, **entries):
    made = ratelimit_pb2.RateLimitDescriptor()
    for key, value in entries.items():
        made.entries.add(key=key, value=value)
    if hits is not None:
        made.hits_addend.CopyFrom(UInt64Value(value=hits))
    if limit is not None:
        made.limit.requests_per_unit, made.limit.unit = limit
    if give_back:
        # Field 4, which these messages are too old to know: is_negative_hits.
        made.MergeFromString(b"\x20\x01")
    return made


class RateLimitService(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(Folder({"edge.yaml": EDGE}))
        self.tollgate = self.enterContext(Tollgate("--envoy-config", self.folder.path))
        address = f"127.0.0.1:{self.tollgate.grpc}"
        self.channel = self.enterContext(grpc.insecure_channel(address))
        self.stub = rls_pb2_grpc.RateLimitServiceStub(self.channel)

    def ask(self, *descriptors, domain="edge", hits=0):
        request = rls_pb2.RateLimitRequest(domain=domain, descriptors=descriptors, hits_addend=hits)
        return self.stub.ShouldRateLimit(request, timeout=PATIENCE)

    def left(self, *descriptors):
        return [status.limit_remaining for status in self.ask(*descriptors).statuses]

    def test_statuses_limits_and_headers(self):
        answer = self.ask(descriptor(user="ana"), descriptor(ip="::1"), descriptor(other="x"))
        self.assertEqual(answer.overall_code, OK)
        self.assertEqual([status.code for status in answer.statuses], [OK] * 3)
        ana, ip, other = answer.statuses
        self.assertEqual((ana.current_limit.requests_per_unit, ana.current_limit.unit), (3, YEAR))
        self.assertEqual((ip.current_limit.name, ip.current_limit.unit), ("per-ip", MONTH))
        self.assertEqual((ana.limit_remaining, ip.limit_remaining), (2, 1))
        self.assertTrue(0 < ip.duration_until_reset.seconds <= 30 * 24 * 3600)
        self.assertEqual(ip.duration_until_reset.nanos, 0)
        self.assertFalse(other.HasField("current_limit"))
        headers = {header.key: header.value for header in answer.response_headers_to_add}
        self.assertEqual(headers["ratelimit-policy"], '"per-ip";q=2;w=2592000')
        self.assertNotIn("content-type", headers)

    def test_over_the_limit(self):
        self.assertEqual([self.left(descriptor(user="ana")) for _ in range(3)], [[2], [1], [0]])
        answer = self.ask(descriptor(user="ana"))
        self.assertEqual((answer.overall_code, answer.statuses[0].code), (OVER, OVER))
        headers = {header.key: header.value for header in answer.response_headers_to_add}
        self.assertEqual(headers["content-type"], "application/problem+json")
        self.assertTrue(headers["retry-after"].isdigit())
        self.assertEqual(json.loads(answer.raw_body)["violated-policies"], ["per-user"])
        self.assertEqual(answer.dynamic_metadata["rule"], "per-user")
        self.assertEqual(self.ask(descriptor(banned="x")).overall_code, OVER)

    def test_all_or_nothing(self):
        self.left(descriptor(ip="::1"), descriptor(ip="::1"))
        answer = self.ask(descriptor(user="ana"), descriptor(ip="::1"))
        self.assertEqual([status.code for status in answer.statuses], [OK, OVER])
        self.assertEqual(self.left(descriptor(user="ana")), [2])

    def test_peek_cost_and_refund(self):
        self.assertEqual(self.left(descriptor(user="ana", hits=2)), [1])
        self.assertEqual(self.left(descriptor(user="ana", hits=0)), [1])
        self.assertEqual(self.left(descriptor(user="ana", hits=1, give_back=True)), [2])
        answer = self.ask(descriptor(user="ana"), hits=2)
        self.assertEqual(answer.statuses[0].limit_remaining, 0)
        self.assertEqual(self.ask(descriptor(user="ana", hits=0)).overall_code, OVER)

    def test_a_limit_of_the_clients_own(self):
        limit = (5, ratelimit_unit_pb2.YEAR)
        self.assertEqual(self.left(descriptor(user="ana", limit=limit)), [4])
        answer = self.ask(descriptor(user="ana", limit=limit, hits=5))
        self.assertEqual(answer.overall_code, OVER)
        self.assertEqual(answer.statuses[0].current_limit.requests_per_unit, 5)
        self.assertEqual(self.left(descriptor(user="ana")), [2])

    def test_errors_say_what_is_wrong(self):
        unit = ratelimit_unit_pb2.UNKNOWN
        for call, says in [
            (lambda: self.ask(descriptor(user="ana"), domain=""), "domain is empty"),
            (lambda: self.ask(), "no descriptors"),
            (lambda: self.ask(descriptor()), "no entries"),
            (lambda: self.ask(descriptor(user="ana", limit=(1, unit))), "SECOND"),
        ]:
            with self.assertRaises(grpc.RpcError) as error:
                call()
            self.assertEqual(error.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn(says, error.exception.details())

    def test_health_and_reflection(self):
        health = health_pb2_grpc.HealthStub(self.channel)
        for service in ["", "envoy.service.ratelimit.v3.RateLimitService"]:
            answer = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE)
            self.assertEqual(answer.status, health_pb2.HealthCheckResponse.SERVING)
        database = ProtoReflectionDescriptorDatabase(self.channel)
        service = "envoy.service.ratelimit.v3.RateLimitService"
        self.assertIn(service, database.get_services())
        found = descriptor_pool.DescriptorPool(database).FindServiceByName(service)
        self.assertEqual(found.methods_by_name["ShouldRateLimit"].input_type.name, "RateLimitRequest")

    def test_its_files_are_read_again(self):
        self.folder.write("mail.yaml", EDGE.replace("domain: edge", "domain: mail"))
        self.folder.write("edge.yaml", EDGE.replace("requests_per_unit: 3", "requests_per_unit: 7"))
        look = descriptor(user="ana", hits=0)
        limit = lambda domain: self.ask(look, domain=domain).statuses[0].current_limit.requests_per_unit
        wait_until("the new limit", lambda: limit("edge") == 7)
        wait_until("the limit of the new file", lambda: limit("mail") == 3)
        self.folder.write("mail.yaml", "domain: mail\nnonsense: yes\n")
        succeeded = lambda: self.tollgate.metrics()["tollgate_policy_last_reload_successful"]
        wait_until("the refusal", lambda: succeeded() == 0)
        wait_until("the reason in the log", lambda: "unknown key `nonsense`" in self.tollgate.said())
        self.assertEqual((limit("edge"), limit("mail")), (7, 3))
        self.assertEqual(self.tollgate.stop(), 0)
