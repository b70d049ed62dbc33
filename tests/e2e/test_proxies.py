"""The recipes of docs/proxies.md, run: each proxy between a client, Tollgate and a service."""

import json
import os
import signal
import socket
import time
import unittest

from support import (
    PATIENCE,
    Folder,
    Running,
    Tollgate,
    Upstream,
    ask,
    free_port,
    program,
    recipe,
    replaced,
    wait_until,
)

# Four requests of each address pass, and nobody in the deny list.
POLICY = """
[[deny]]
name = "nobody"
match = { path = "/denied" }

[[rule]]
name = "per-ip"
match = { path = { prefix = "/limited" } }
key = ["ip"]
limit = "4/h"

[[rule]]
name = "posts"
match = { path = "/post", method = "POST" }
key = ["ip"]
limit = "1/h"

[[rule]]
name = "per-key"
match = { path = "/keyed" }
key = ["api_key"]
limit = "5/h"
"""


class Proxied:
    """A client, a proxy, Tollgate and a service; each class says how its proxy is started."""

    policy = POLICY
    tollgate_arguments = []
    # The recipe's timeouts and what they become: 10 minutes, so that a slow answer on a busy machine is
    # waited for, and a proxy that waits for a killed Tollgate exceeds PATIENCE.
    timeouts = {}

    @staticmethod
    def changed(text):
        """The recipe as it is, or as the page says that it may be changed."""
        return text

    @classmethod
    def recipe(cls, name):
        return replaced(cls.changed(recipe(name)), cls.timeouts)

    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(Folder())
        cls.upstream = cls.enterClassContext(Upstream())
        cls.tollgate = cls.enterClassContext(Tollgate(*cls.tollgate_arguments, policy=cls.policy))
        cls.port = free_port()
        addresses = {
            "127.0.0.1:8080": f"127.0.0.1:{cls.tollgate.http}",
            "127.0.0.1:3000": f"127.0.0.1:{cls.upstream.port}",
            "127.0.0.1:8000": f"127.0.0.1:{cls.port}",
        }
        cls.enterClassContext(cls.start(addresses))


class Recipe(Proxied):
    """What every proxy must do."""

    tollgate_arguments = ["--attribute", "api_key=x-api-key"]

    def test_a_client_is_limited_tells_no_lies_and_passes_where_tollgate_is_away(self):
        """In one test, since the last part ends what the others need."""
        self.is_not_told_of_limits_where_no_rule_applies()
        self.is_allowed_with_the_fields_of_its_limit()
        self.is_refused_whatever_addresses_it_claims()
        self.is_decided_whatever_it_asks_for()
        self.is_refused_by_a_deny_list()
        self.sees_the_refusals_of_the_service_itself()
        self.is_told_apart_by_method_and_its_body_arrives()
        self.is_limited_by_its_api_key()
        self.meets_a_tollgate_that_is_killed()

    def is_not_told_of_limits_where_no_rule_applies(self):
        answer = ask(self.port, "/free")
        fields = (answer.header("RateLimit"), answer.header("RateLimit-Policy"))
        self.assertEqual((answer.status, fields), (200, (None, None)), answer)
        self.assertEqual(json.loads(answer.body)["path"], "/free")

    def is_allowed_with_the_fields_of_its_limit(self):
        answer = ask(self.port, "/limited?page=2")
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(json.loads(answer.body)["path"], "/limited?page=2")
        self.assertEqual(answer.header("RateLimit-Policy"), '"per-ip";q=4;w=3600', answer)
        self.assertRegex(answer.header("RateLimit"), r'^"per-ip";r=3;t=\d+$')

    def is_refused_whatever_addresses_it_claims(self):
        for number in range(3):
            lie = {"X-Forwarded-For": f"203.0.113.{number}", "X-Real-IP": f"203.0.113.{number}"}
            self.assertEqual(ask(self.port, "/limited", headers=lie).status, 200)
        asked = self.upstream.asked
        lies = [
            {},
            {"X-Forwarded-For": "203.0.113.99"},
            {"X-Forwarded-For": "127.0.0.1, 203.0.113.99"},
            {"Forwarded": "for=203.0.113.99"},
            {"X-Forwarded-Uri": "/free", "X-Forwarded-Method": "PUT", "X-Original-URI": "/free"},
            {"Connection": "close, X-Forwarded-For", "X-Forwarded-For": "203.0.113.99"},
        ]
        for lie in lies:
            answer = ask(self.port, "/limited", headers=lie)
            self.assertEqual(answer.status, 429, (lie, answer))
            self.assertGreaterEqual(int(answer.header("Retry-After")), 1)
            self.assertRegex(answer.header("RateLimit"), r'^"per-ip";r=0;t=\d+$')
            self.assertEqual(answer.header("Cache-Control"), "no-store")
            self.assertIn("application/problem+json", answer.header("Content-Type"))
            problem = json.loads(answer.body)
            self.assertEqual(problem["status"], 429)
            self.assertTrue(problem["type"].endswith("#quota-exceeded"), problem)
        self.assertEqual(self.upstream.asked, asked, "no refused request reaches the service")

    def is_decided_whatever_it_asks_for(self):
        for end in ["?" + "q" * 6000, "/" + "x" * 6000, "/" + "%ff" * 2000 + "?%ff"]:
            for path, status in [("/limited", 429), ("/free", 200)]:
                answer = ask(self.port, path + end)
                self.assertEqual(answer.status, status, (path, end[:5], answer))

    def is_refused_by_a_deny_list(self):
        answer = ask(self.port, "/denied")
        self.assertEqual(answer.status, 403, answer)
        self.assertIsNone(answer.header("Retry-After"))

    def sees_the_refusals_of_the_service_itself(self):
        answer = ask(self.port, "/forbidden")
        self.assertEqual((answer.status, json.loads(answer.body)["path"]), (403, "/forbidden"))

    def is_told_apart_by_method_and_its_body_arrives(self):
        answer = ask(self.port, "/post", "POST", body="a" * 70000)
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(len(json.loads(answer.body)["body"]), 70000)
        self.assertEqual(ask(self.port, "/post", "POST", body="b").status, 429)
        self.assertEqual(ask(self.port, "/post", "PUT", body="c").status, 200)

    def is_limited_by_its_api_key(self):
        statuses = [ask(self.port, "/keyed", headers={"X-Api-Key": "one"}).status for _ in range(12)]
        self.assertEqual(statuses, [200] * 5 + [429] * 7)
        self.assertEqual(ask(self.port, "/keyed", headers={"X-Api-Key": "two"}).status, 200)
        self.assertEqual(ask(self.port, "/keyed").status, 200, "no rule counts a client without a key")

    def meets_a_tollgate_that_is_killed(self):
        self.tollgate.kill()
        for path in ["/limited", "/free", "/limited"]:
            answer = ask(self.port, path)
            self.assertEqual(answer.status, 200, answer)
        answer = ask(self.port, "/post", "POST", body="still here")
        self.assertEqual(json.loads(answer.body)["body"], "still here")
        self.tollgate.start()
        wait_until("asks it again", lambda: ask(self.port, "/denied").status == 403)


class Closed(Proxied):
    """The recipe changed so that nothing passes where Tollgate is away."""

    def test_a_client_is_refused_where_tollgate_is_away(self):
        self.assertEqual(ask(self.port, "/free").status, 200)
        asked = self.upstream.asked
        self.assertEqual(asked, 1)
        self.tollgate.kill()
        for _ in range(3):
            answer = ask(self.port, "/free")
            self.assertEqual(answer.status, self.away_status, answer)
        self.assertEqual(self.upstream.asked, asked)


class TimesOut(Proxied):
    """The recipe with its own timeouts."""

    timeouts = {}

    def test_a_client_passes_where_tollgate_does_not_answer(self):
        self.tollgate.running.process.send_signal(signal.SIGSTOP)
        self.passes()
        self.tollgate.kill()
        # One fast answer will do: on a busy machine any of them may take long.
        wait_until("an answer within a second", lambda: seconds(self.passes) < 1)

    def passes(self):
        answer = ask(self.port, "/free")
        self.assertEqual((answer.status, json.loads(answer.body)["path"]), (200, "/free"), answer)


def raw_status(port, path):
    """The status of what a client gets that sends these bytes as they are."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client:
        client.sendall(b"GET " + path + b" HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        with client.makefile("rb") as answer:
            return answer.readline().split()[1]


def seconds(do):
    before = time.monotonic()
    do()
    return time.monotonic() - before


def needs(name):
    return unittest.skipUnless(program(name), f"{name} is not installed, see tests/e2e/setup.sh")


class Nginx:
    timeouts = {
        "proxy_connect_timeout 1s;": "proxy_connect_timeout 10m;",
        "proxy_read_timeout 1s;": "proxy_read_timeout 10m;",
    }

    @classmethod
    def start(cls, addresses):
        folder = cls.folder.path
        paths = "".join(
            f"{kind}_temp_path {folder}/{kind};\n"
            for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        )
        # Its workers would be somebody else's, who may not write there.
        user = "user root;" if os.geteuid() == 0 else ""
        around = (
            f"{user} daemon off; pid {folder}/nginx.pid; error_log stderr; worker_processes 1;\n"
            f"events {{ worker_connections 4096; }}\nhttp {{ access_log off;\n{paths}"
        )
        files = {"/var/log/nginx/tollgate-fail-open.log": f"{folder}/fail-open.log"}
        # A line that the server of a user has already.
        own = {"    add_header RateLimit $": "    add_header X-Server kept always;\n    add_header RateLimit $"}
        text = around + replaced(cls.recipe("nginx"), {**addresses, **files, **own}) + "}\n"
        file = cls.folder.write("nginx.conf", text)
        command = [program("nginx"), "-p", folder, "-e", "stderr", "-c", file]
        return Running(command, [cls.port], folder)


class Caddy:
    timeouts = {
        "dial_timeout 1s": "dial_timeout 10m",
        "response_header_timeout 1s": "response_header_timeout 10m",
    }

    @classmethod
    def start(cls, addresses):
        # Without the administration of Caddy itself, whose port another may have.
        own = {"{\n    # One line": "{\n    admin off\n    auto_https off\n    # One line"}
        files = {"/var/log/caddy/tollgate-fail-open.log": f"{cls.folder.path}/fail-open.log"}
        text = replaced(cls.recipe("caddy"), {**addresses, **own, **files})
        file = cls.folder.write("Caddyfile", text)
        command = [program("caddy"), "run", "--config", file, "--adapter", "caddyfile"]
        home = {"HOME": cls.folder.path, "XDG_DATA_HOME": cls.folder.path}
        return Running(command, [cls.port], cls.folder.path, env=home)


class HAProxy:
    # The interval is also how long a check may take to connect. No more than some seconds: until a check
    # finds it killed, each request tries several times to connect.
    timeouts = {
        "inter 500ms": "inter 3s downinter 500ms",
        "timeout server 30s\n": "timeout server 30s\n    timeout check 10m\n",
    }
    lua_timeouts = {"timeout = 1000 })": "timeout = 600000 })"}

    @classmethod
    def start(cls, addresses):
        lua = replaced(recipe("haproxy-lua"), {"127.0.0.1:8080": addresses["127.0.0.1:8080"], **cls.lua_timeouts})
        statistics = {"global\n": f"global\n    stats socket {cls.folder.path}/stats.sock\n"}
        text = replaced(cls.recipe("haproxy"), {**addresses, **statistics})
        cls.folder.write("tollgate.lua", lua)
        file = cls.folder.write("haproxy.cfg", text)
        return Running([program("haproxy"), "-f", file], [cls.port], cls.folder.path)


class Traefik:
    timeouts = {"dialTimeout: 1s": "dialTimeout: 10m", "responseHeaderTimeout: 1s": "responseHeaderTimeout: 10m"}

    @classmethod
    def start(cls, addresses):
        inner = {"127.0.0.1:8079": f"127.0.0.1:{free_port()}"}
        of_routes = {name: addresses[name] for name in ["127.0.0.1:8080", "127.0.0.1:3000"]}
        file = cls.folder.write("routes.yaml", replaced(cls.recipe("traefik"), {**of_routes, **inner}))
        of_options = {"127.0.0.1:8000": addresses["127.0.0.1:8000"], "routes.yaml": file, **inner}
        options = replaced(recipe("traefik-options"), of_options).split()
        command = [program("traefik"), *options, "--log.level=ERROR"]
        command += ["--global.checkNewVersion=false", "--global.sendAnonymousUsage=false"]
        running = Running(command, [cls.port], cls.folder.path)
        cls.wait_for_routes()
        return running

    @classmethod
    def wait_for_routes(cls):
        """Waits until it has read its routes: it listens before."""
        wait_until("a route", lambda: ask(cls.port, "/free").status == 200)


@needs("nginx")
class NginxRecipe(Nginx, Recipe, unittest.TestCase):
    """It makes 500 of every answer that it does not know, and hands on bytes that are no text."""

    def is_decided_whatever_it_asks_for(self):
        super().is_decided_whatever_it_asks_for()
        for path, status in [(b"/limited\xff", b"429"), (b"/free\xff?\xfe", b"200")]:
            self.assertEqual(raw_status(self.port, path), status, path)

    def is_refused_by_a_deny_list(self):
        super().is_refused_by_a_deny_list()
        for path, status in [("/free", 200), ("/limited", 429), ("/denied", 403)]:
            answer = ask(self.port, path)
            self.assertEqual((answer.status, answer.header("X-Server")), (status, "kept"), answer)
            cache_control = None if status == 200 else "no-store"
            self.assertEqual(answer.header("Cache-Control"), cache_control, answer)


@needs("nginx")
class NginxTellsNothing(Nginx, Proxied, unittest.TestCase):
    """With `--tell none` no refusal has a Retry-After to be known by."""

    tollgate_arguments = ["--tell", "none"]

    def test_a_limited_client_sees_429_and_a_denied_one_403(self):
        for _ in range(4):
            self.assertEqual(ask(self.port, "/limited").status, 200)
        answer = ask(self.port, "/limited")
        self.assertEqual((answer.status, json.loads(answer.body)["status"]), (429, 429), answer)
        for field in ["Retry-After", "RateLimit", "Tollgate-Status"]:
            self.assertIsNone(answer.header(field), answer)
        self.assertEqual(ask(self.port, "/denied").status, 403)


@needs("caddy")
class CaddyRecipe(Caddy, Recipe, unittest.TestCase):
    pass


@needs("haproxy")
class HAProxyRecipe(HAProxy, Recipe, unittest.TestCase):
    pass


@needs("traefik")
class TraefikRecipe(Traefik, Recipe, unittest.TestCase):
    """It adds no fields to what passes, and lets nothing pass where Tollgate is away."""

    def is_allowed_with_the_fields_of_its_limit(self):
        answer = ask(self.port, "/limited?page=2")
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(json.loads(answer.body)["path"], "/limited?page=2")
        self.assertIsNone(answer.header("RateLimit"), answer)

    def meets_a_tollgate_that_is_killed(self):
        asked = self.upstream.asked
        self.tollgate.kill()
        for path in ["/limited", "/free"]:
            self.assertEqual(ask(self.port, path).status, 502)
        self.assertEqual(self.upstream.asked, asked)
        self.tollgate.start()
        wait_until("asks it again", lambda: ask(self.port, "/free").status == 200)


@needs("nginx")
class NginxTimesOut(TimesOut, Nginx, unittest.TestCase):
    pass


@needs("caddy")
class CaddyTimesOut(TimesOut, Caddy, unittest.TestCase):
    pass


@needs("haproxy")
class HAProxyTimesOut(TimesOut, HAProxy, unittest.TestCase):
    lua_timeouts = {}


@needs("traefik")
class TraefikTimesOut(Traefik, Proxied, unittest.TestCase):
    """The recipe with its own timeouts; `forwardAuth` alone would answer 500 after 30 seconds."""

    timeouts = {}

    def test_request_is_denied_at_the_timeout_of_the_recipe_if_tollgate_hangs(self):
        self.tollgate.running.process.send_signal(signal.SIGSTOP)
        # Another thread of Tollgate may answer before it has stopped.
        wait_until("the timeout", lambda: ask(self.port, "/free").status == 504)


@needs("traefik")
class TraefikForwardedFor(Traefik, Proxied, unittest.TestCase):
    """Its own entry point adds no address: a Tollgate elsewhere would take 127.0.0.1 for the client."""

    @classmethod
    def start(cls, addresses):
        cls.decider = cls.enterClassContext(Upstream())
        return super().start({**addresses, "127.0.0.1:8080": f"127.0.0.1:{cls.decider.port}"})

    def test_tollgate_gets_the_address_of_the_client_alone(self):
        for lie in [{}, {"X-Forwarded-For": "203.0.113.99"}]:
            self.assertEqual(ask(self.port, "/free", headers=lie).status, 200)
            self.assertEqual(self.decider.last_headers.get_all("X-Forwarded-For"), ["127.0.0.1"])
            self.assertEqual(self.decider.last_headers["X-Forwarded-Uri"], "/free")


class AtConnectionLimit:
    """A Tollgate at its limit of connections, which another client has used up."""

    tollgate_arguments = ["--max-connections", "1", "--max-first-byte", "1h"]
    expected = [200]

    @classmethod
    def start(cls, addresses):
        cls.held = cls.enterClassContext(hold_only_connection(cls.tollgate.http))
        return super().start(addresses)

    def test_request_beyond_the_limit_of_connections_is_answered_as_documented(self):
        for _ in range(20):
            answer = ask(self.port, "/limited")
            self.assertIn(answer.status, self.expected, answer)
        self.assertEqual(self.upstream.asked, 20 if 200 in self.expected else 0)


def hold_only_connection(port):
    """A connection that takes the only place of a server."""
    # The server accepts in order: this connection before that of the probe.
    held = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as probe:
        answer = probe.recv(12)
    if answer != b"HTTP/1.1 503":
        raise AssertionError(f"the server has room for another: {answer!r}")
    return held


@needs("nginx")
class NginxAtConnectionLimit(AtConnectionLimit, Nginx, Proxied, unittest.TestCase):
    pass


@needs("caddy")
class CaddyAtConnectionLimit(AtConnectionLimit, Caddy, Proxied, unittest.TestCase):
    pass


@needs("haproxy")
class HAProxyAtConnectionLimit(AtConnectionLimit, HAProxy, Proxied, unittest.TestCase):
    pass


@needs("traefik")
class TraefikAtConnectionLimit(AtConnectionLimit, Traefik, Proxied, unittest.TestCase):
    # Tollgate closes the connection behind its 503. If Traefik still sends, it sees only the close.
    expected = [500, 502, 503]

    @classmethod
    def wait_for_routes(cls):
        wait_until("a route", lambda: ask(cls.port, "/free").status in cls.expected)


@needs("nginx")
class NginxClosed(Nginx, Closed, unittest.TestCase):
    away_status = 500

    @staticmethod
    def changed(text):
        return replaced(text, {"error_page 500 502 503 504 = @undecided;": ""})


@needs("caddy")
class CaddyClosed(Caddy, Closed, unittest.TestCase):
    away_status = 502

    @staticmethod
    def changed(text):
        without, _ = text.split("    # Requests that Tollgate does not decide pass.")
        return without + "}\n"


@needs("haproxy")
class HAProxyClosed(HAProxy, Closed, unittest.TestCase):
    away_status = 503

    @staticmethod
    def changed(text):
        return replaced(text, {"#   http-request deny status": "http-request deny status"})


if __name__ == "__main__":
    unittest.main()
