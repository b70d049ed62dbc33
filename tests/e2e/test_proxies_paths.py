"""A denied path in every spelling, through each proxy, to a service that decodes paths."""

import json
import posixpath
import unittest
import urllib.parse

import test_proxies
from support import ask, replaced
from test_proxies import needs

POLICY = """
[[deny]]
name = "login"
match = { path = "/login" }
"""

SPELLINGS = [
    "/login",
    "/login?next=/",
    "/%6cogin",
    "/%6C%6f%67%69%6E",
    "//login",
    "///login",
    "/./login",
    "/.//login",
    "/%2e/login",
    "/x/../login",
    "/x//../login",
    "/x/%2e%2E/login",
    "/x/.%2e/%6cogin",
    "/x/y/../../login",
    "/../login",
    "/%2e%2e/login",
    "http://127.0.0.1/login",
    "http://127.0.0.1//%6cogin",
]


def resource(path):
    """What the service serves for a path: it decodes it once, and then resolves it."""
    decoded = urllib.parse.unquote(urllib.parse.urlsplit(path).path if "://" in path else path.split("?")[0])
    return posixpath.normpath("/" + decoded.lstrip("/"))


class Paths:
    policy = POLICY

    def test_no_spelling_of_a_denied_path_reaches_the_service(self):
        self.assertEqual(ask(self.port, "/other").status, 200)
        self.assertEqual(ask(self.port, "/login").status, 403)
        for spelling in SPELLINGS:
            self.assertEqual(resource(spelling), "/login", spelling)
            answer = ask(self.port, spelling)
            # Some proxies reject a spelling, or redirect to another one.
            self.assertIn(answer.status, [301, 307, 308, 400, 403], (spelling, answer))
        # What looks alike, and is not.
        for path in ["/login/", "/loginx", "/x/login", "/Login", "/%256cogin"]:
            answer = ask(self.port, path)
            self.assertEqual(answer.status, 200, (path, answer))
            self.assertEqual(json.loads(answer.body)["path"], path)


@needs("nginx")
class NginxPaths(Paths, test_proxies.Nginx, test_proxies.Proxied, unittest.TestCase):
    pass


@needs("nginx")
class NginxOriginalUrlPaths(Paths, test_proxies.Nginx, test_proxies.Proxied, unittest.TestCase):
    """The headers of ingress-nginx and of recipes for Authelia."""

    tollgate_arguments = ["--proxy-headers", "x-original-url"]

    @staticmethod
    def changed(text):
        return replaced(
            text,
            {
                "X-Forwarded-Method $request_method": "X-Original-Method $request_method",
                "        proxy_set_header X-Forwarded-Host $host;\n": "",
                "        proxy_set_header X-Forwarded-Proto $scheme;\n": "",
                "X-Forwarded-Uri $request_uri": "X-Original-URL $scheme://$http_host$request_uri",
            },
        )

    def test_no_host_hides_the_path(self):
        self.assertEqual(ask(self.port, "/other", headers={"Host": "shop.example"}).status, 200)
        for host in ["a?", "a?b", "a#", "user@a", "a:80", "?", "#"]:
            answer = ask(self.port, "/login", headers={"Host": host})
            # nginx rejects some of them.
            self.assertIn(answer.status, [400, 403], (host, answer))


@needs("caddy")
class CaddyPaths(Paths, test_proxies.Caddy, test_proxies.Proxied, unittest.TestCase):
    pass


@needs("haproxy")
class HAProxyPaths(Paths, test_proxies.HAProxy, test_proxies.Proxied, unittest.TestCase):
    pass


@needs("traefik")
class TraefikPaths(Paths, test_proxies.Traefik, test_proxies.Proxied, unittest.TestCase):
    pass
