"""`tollgate top` in a real terminal. What a person sees is written to target/screenshots/top.txt."""

import json
import os
import pathlib
import re
import signal
import unittest

from dashboard_server import DashboardServer
from support import ROOT, Folder, Running, ask, free_port, program, tollgate_binary

try:
    from terminal import Terminal
except ImportError:
    Terminal = None

POLICY = """
[[rule]]
name = "per-tenant"
key = ["tenant"]
limit = "2/h"

[[rule]]
name = "search"
match = { route = "/search" }
key = ["ip"]
limit = "1/h"
"""

READ, WRITE = "read-read-read-read", "write-write-write-write"
HOSTILE = "\x1b]0;pwned\x07\x1b[2J\u202eevil"
SCREENSHOTS = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "screenshots"


@unittest.skipUnless(Terminal, "needs pyte, see tests/e2e/setup.sh")
class Top(unittest.TestCase):
    def setUp(self):
        tokens = f"rita read {READ}\nwalt write {WRITE}\n"
        self.server = DashboardServer(POLICY, "--admin-tokens", "tokens", "--audit", "audit.jsonl", tokens=tokens)
        self.addCleanup(self.server.remove)

    def top(self, token=WRITE, size=(24, 80), **env):
        command = [tollgate_binary(), "top", "--server", self.server.url]
        return Terminal(command, size, {"NO_COLOR": "", "TOLLGATE_TOKEN": token, **env})

    def check(self, **attributes):
        answer = ask(self.server.port, "/v1/check", "POST", body=json.dumps({"attributes": attributes}))
        return json.loads(answer.body)

    def refuse(self, times=3, **attributes):
        for _ in range(times):
            answer = self.check(**attributes)
        self.assertFalse(answer["allowed"])

    def changes(self):
        log = pathlib.Path(self.server.folder.path) / "audit.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()]

    def test_the_refused_key_is_seen_and_reset_and_the_next_check_is_allowed(self):
        self.refuse(5, tenant="acme")
        with self.top() as top:
            top.sees("tenant=acme", "per-tenant", "over limit", "live ", "0 of 2 left  OVER LIMIT, next in")
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            (SCREENSHOTS / "top.txt").write_text(top.text() + "\n")
            top.press("r")
            top.sees("reset this key?", "Restores the full quota of tenant=acme", "as walt")
            self.assertFalse(self.check(tenant="acme")["allowed"], "it is not done before it is confirmed")
            top.press("y")
            top.sees("tenant=acme on per-tenant was reset")
            self.assertTrue(self.check(tenant="acme")["allowed"])
            top.press("q")
            self.assertEqual(top.end(), 0)
            self.assertTrue(top.is_as_before(), top.output()[-200:])
        self.assertEqual([(change["action"], change["actor"]) for change in self.changes()], [("reset", "walt")])

    def test_a_key_is_looked_at_on_every_rule_blocked_unblocked_and_overridden(self):
        self.check(tenant="acme")
        with self.top(size=(30, 110)) as top:
            top.sees("hottest keys")
            top.press("/tenant=acme\r")
            top.sees("next request allowed", "1 of 2 left", 'search: requires attribute "route"')
            top.press("b")
            top.sees("block this key?", "15m")
            top.press("\r")
            top.sees("is blocked for 15m00s")
            top.sees("BLOCKED for")
            self.assertEqual(self.check(tenant="acme")["reason"], "block")
            top.press("b")
            top.sees("unblock this key?")
            top.press("y")
            top.sees("is unblocked")
            top.sees("next request allowed")
            self.assertTrue(self.check(tenant="acme")["allowed"])
            top.press("o\x15" + "50/h\r")
            top.sees("override saved for tenant=acme on per-tenant for 1h00m")
            top.sees("50/h (run-time override)", "of 50 left")
            self.assertEqual(self.check(tenant="acme")["limit"], 50)
            top.press("xy")
            top.sees("was removed")
            top.sees("2/h (rule default)")
        done = [change["action"] for change in self.changes()]
        self.assertEqual(done, ["block", "unblock", "set_override", "remove_override"])

    def test_a_key_is_found_by_a_part_and_shown_under_the_rule_that_it_was_found_by(self):
        self.refuse(2, ip="203.0.113.9", route="/search")
        with self.top(READ) as top:
            top.sees("live ")
            top.press("/0.113\r")
            top.sees("active keys that contain 0.113: 1", "ip=203.0.113.9", "over, next in")
            top.press("\r")
            # The rule needs a route, too, which is no part of its key.
            top.sees("─▸ ip=203.0.113.9", "no rule matches these attributes", "rules need: tenant, route + ip")
            top.sees("other active keys with ip=203.0.113.9", "0 of 1 left", "OVER LIMIT, next in")

    def test_a_token_that_may_only_read_is_told_so(self):
        self.refuse(tenant="acme")
        with self.top(READ) as top:
            top.sees("tenant=acme", "rita may only read")
            top.press("r")
            top.sees("rita may only read: a token with the role write is needed")
            self.assertFalse(self.check(tenant="acme")["allowed"])

    def test_a_lost_server_is_shown_with_since_when_and_found_again(self):
        with self.top() as top:
            top.sees("live ")
            self.server.kill()
            top.sees("LOST since", "next try")
            self.server.start()
            top.sees_no("LOST")
            self.refuse(tenant="acme")
            top.sees("live ", "tenant=acme")

    def test_who_is_no_longer_let_in_is_told_so(self):
        with self.top() as top:
            top.sees("live ", "walt may write")
            self.server.folder.write("tokens", f"rita read {READ}\n")
            top.sees("TURNED AWAY since", "the token is wrong")

    def test_a_wider_key_says_whom_a_change_affects(self):
        self.refuse(tenant="acme", user="42")
        with self.top(size=(30, 110)) as top:
            top.sees("hottest keys")
            top.press("/tenant=acme user=42\r")
            top.sees("next request DENIED: over the limit of rule per-tenant")
            top.press("b")
            top.sees("Affects all users of tenant=acme, not only user=42.")

    @unittest.skipUnless(program("redis-server"), "needs redis-server")
    def test_a_store_that_is_away_is_shown_and_a_change_that_needs_it_is_not_done(self):
        port = free_port()
        redis = [program("redis-server"), "--port", port, "--save", ""]
        with Folder() as folder, Running(redis, [port], folder.path) as store:
            # The longest timeout: a slow answer of Redis on a busy machine is no outage.
            server = DashboardServer(POLICY, "--insecure-admin", "--store", f"redis://127.0.0.1:{port}", "--store-timeout", "10s")
            self.addCleanup(server.remove)
            self.server = server
            self.refuse(tenant="acme")
            with self.top(token="", size=(24, 120)) as top:
                top.sees("store redis answers", "tenant=acme")
                store.kill()
                self.check(tenant="acme")
                top.sees("DEGRADED", f"Redis 127.0.0.1:{port} UNAVAILABLE for", "local limits, on this node alone")
                top.press("ry")
                top.sees("not done: redis has been away")

    def test_a_hostile_name_does_nothing_to_the_terminal(self):
        self.refuse(tenant=HOSTILE)
        with self.top(size=(24, 120)) as top:
            top.sees('tenant="\\u{1b}]0;pwned\\u{7}\\u{1b}[2J\\u{202e}evil"', "most refused")
            top.press("\r")
            top.sees("next request DENIED: over the limit of rule per-tenant")
            top.press("\x1b")
            top.sees("most refused")
            top.press("ry")
            top.sees("was reset")
            output = top.output()
            self.assertNotIn(b"]0;pwned\x07", output)
            self.assertNotIn("\u202e".encode(), output)
            self.assertEqual(top.screen.title, "")
        self.assertTrue(self.check(tenant=HOSTILE)["allowed"], "the key that was meant was reset")

    def test_it_is_left_by_control_c_and_by_signals_with_the_terminal_as_before(self):
        for leave in ["\x03", signal.SIGTERM, signal.SIGINT]:
            with self.subTest(leave=leave), self.top() as top:
                top.sees("live ")
                if isinstance(leave, str):
                    top.press(leave)
                else:
                    top.process.send_signal(leave)
                self.assertEqual(top.end(), 0)
                self.assertTrue(top.is_as_before(), top.output()[-200:])

    def test_a_plain_terminal_gets_no_colours_and_nothing_but_ascii(self):
        self.refuse(tenant="schlüssel")
        with self.top(NO_COLOR="1", LC_ALL="C") as top:
            top.sees("tenant=schl?ssel", "over limit", "-> most refused keys")
            output = top.output()
            self.assertTrue(output.isascii())
            colours = [code for codes in re.findall(rb"\x1b\[([0-9;]*)m", output) for code in codes.split(b";")
                       if code and 30 <= int(code) <= 48 and code not in (b"39", b"49") or code in (b"38", b"48")]
            self.assertEqual(colours, [])

    def test_a_window_that_changes_its_size_is_drawn_anew(self):
        self.refuse(tenant="acme")
        with self.top() as top:
            top.sees("most refused keys", "hottest keys", "rules")
            top.resize(12, 40)
            top.sees_no("hottest keys")
            top.sees("tenant=acme")
            top.resize(4, 10)
            top.sees("too small")
            top.resize(40, 150)
            top.sees("most refused keys", "hottest keys", "tenant=acme")


if __name__ == "__main__":
    unittest.main()
