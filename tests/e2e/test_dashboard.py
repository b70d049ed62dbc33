"""The dashboard at /, in a real browser."""

import json
import os

from browser import HOSTILE, POLICY, READ, WRITE, BrowserTest, Keys
from dashboard_server import DashboardServer

# How many decisions the pictures of the live view show at least; charts of more are nicer.
DECISIONS = int(os.environ.get("SCREENSHOT_DECISIONS", "100"))
# Closes the dialog and presses "Reset …" again in one task.
REOPEN = """
document.getElementById("dialog").close();
[...document.querySelectorAll(`${arguments[0]} button`)].find((button) => button.textContent.startsWith("Reset")).click();
"""


class DashboardLive(BrowserTest):
    def test_it_loads_without_complaints_and_shows_live_numbers(self):
        self.open()
        self.traffic()
        number = lambda: float(self.facts("#tiles")["Decisions / s"].replace(",", "").replace("<", ""))
        self.until(lambda: number() > 1, "decisions are counted")
        acme = lambda: [row for row in self.rows("#refused") if row["Key"] == "tenant=acme"]
        self.until(acme, "the refused key is shown")
        self.assertEqual([(row["Rule"], row["Why"]) for row in acme()], [("per-tenant", "over its limit")])
        self.until(lambda: self.total("per-user") > 0 and self.total("search") > 0, "rules are shown")
        self.find("#latency-legend .http")
        health = self.facts("#health")
        self.assertEqual(health["Store"], "In memory")
        self.assertRegex(health["Server"], "^Ready, ")
        self.assertRegex(health["Policy"], "^4 rules, ")
        self.assertEqual(len(self.all("#health dd.good")), 3)
        drawn = "const c = document.getElementById(arguments[0]); return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((byte) => byte > 0)"
        self.until(lambda: self.js(drawn, "decisions") and self.js(drawn, "latency"), "the charts are drawn")
        self.assertEqual(self.complaints(), [])

    def test_without_a_token_only_health_is_shown(self):
        self.driver.get(self.url)
        self.find("#enter-health.good")
        self.assertEqual([link.text for link in self.all("nav a") if link.is_displayed()], [])
        self.assertEqual(self.complaints(), [])
        self.screenshot("enter")
        self.find("#token").send_keys("wrong-wrong-wrong-wrong" + Keys.ENTER)
        self.until(lambda: "token is wrong" in self.text("#enter-error"), "the error is shown")
        self.find("#token").send_keys(READ + Keys.ENTER)
        self.is_live()
        stored = self.js("return [JSON.stringify(localStorage), document.cookie, location.href, document.documentElement.outerHTML].join()")
        self.assertNotIn(READ, stored)
        self.assertEqual(self.js("return Object.values(sessionStorage)"), [READ])
        self.use_up()
        self.look_up("tenant=acme")
        self.until(lambda: self.text(self.card("per-tenant") + " .amount") == "0 of 5", "a reader sees the key")
        self.assertEqual(self.all("article button"), [])
        self.press("Sign out", "header")
        self.find("#token")
        self.assertEqual(self.js("return sessionStorage.length"), 0)

    def test_on_this_machine_without_tokens_it_opens_at_once(self):
        server = DashboardServer(POLICY, "--insecure-admin")
        self.addCleanup(server.remove)
        self.driver.get(server.url)
        self.is_live()
        self.assertEqual(self.complaints(), [])
        self.driver.get(server.url + "/#keys/tenant=acme")
        self.press("Block …", self.card("per-tenant"))
        self.confirm()
        self.find("[data-rule=per-tenant].blocked")

    def test_a_lost_connection_is_shown_and_recovers_by_itself(self):
        self.open()
        end = self.traffic()
        self.until(lambda: self.total("per-user") > 1, "decisions are counted")
        self.server.kill()
        end()
        self.until(lambda: self.exists("#connection.gone") and self.text("#connection") == "Lost", "the connection is lost")
        self.until(lambda: "Connection lost" in self.text("#lost") and "Retrying" in self.text("#lost"), "it is shown")
        self.screenshot("lost")
        self.server.start()
        self.is_live()
        self.until(lambda: self.exists("#lost[hidden]"), "the warning goes")
        self.check(user="after")
        self.until(lambda: self.total("per-user") == 1, "counts are the new server's")

    def test_the_loudest_tenant_is_shown_and_removed_rules_leave_the_page(self):
        for tenant, times in [("globex", 3), ("acme", 9)]:
            for _ in range(times):
                self.check(tenant=tenant, user="ana")
        self.open()
        loudest = lambda: [(row["Key"], row["Requests"]) for row in self.rows("#loudest")]
        # The user is charged by a rule of its own in the same requests.
        tenants = [("tenant=acme", "9"), ("tenant=globex", "3")]
        self.until(lambda: loudest() == [("user=ana", "12"), *tenants], "all enforced rules")
        self.press("per-tenant", "#rules")
        self.until(lambda: loudest() == tenants, "the keys of one rule")
        self.assertEqual([row["Denied"] for row in self.rows("#loudest")], ["4 (44 %)", "0 (0 %)"])
        self.press("trial", "#rules")
        self.js("const by = document.getElementById('loudest-by'); by.value = 'would_deny'; by.dispatchEvent(new Event('change'))")
        would = lambda: [(row["Key"], row.get("Would deny")) for row in self.rows("#loudest")]
        self.until(lambda: would() == [("tenant=acme", "7 (78 %)"), ("tenant=globex", "1 (33 %)")], "what a shadow rule would deny")
        note = next(row["Rule"] for row in self.rows("#rules") if row["Rule"].startswith("trial"))
        self.assertIn("would deny 8 of 12; 4 not denied otherwise", note)
        self.admin("PUT", "policy", '[[rule]]\nname = "per-user"\nkey = ["user"]\nlimit = "30/min"\n')
        rules = lambda: [row["Rule"].split("\n")[0] for row in self.rows("#rules")]
        self.until(lambda: rules() == ["per-user"], "removed rules leave the list")
        self.until(lambda: self.js("return document.getElementById('which-rule').value") == "*", "and the choice")
        self.until(lambda: would() == [] and self.rows("#refused") == [], "and their keys leave, too")
        self.assertEqual(self.complaints(), [])

    def test_a_server_that_stops_does_not_wait_for_pages(self):
        # A server that waits for the page's stream does not end before it is killed.
        self.serve("--drain", "10m")
        self.open()
        self.assertEqual(self.server.stop(), 0)

    def test_a_policy_and_what_it_would_do_are_shown(self):
        self.open(view="#policy")
        self.until(lambda: 'name = "per-tenant"' in self.text("#policy"), "the policy")
        self.find("#explain-text").send_keys("user=42 route=/search ip=10.0.0.1" + Keys.ENTER)
        self.find("#explained .answer:not(.bad)")
        rules = lambda selector: [rule.get_attribute("data-rule") for rule in self.all(selector)]
        self.until(lambda: rules("#explained article") == ["per-user", "search"], "the rules that apply")
        self.click("#explained summary")
        others = self.text("#explained details ul").split("\n")
        self.assertEqual([line.split(":")[0] for line in others], ["per-tenant", "trial"])
        for line in others:
            self.assertIn('requires attribute "tenant" for its key', line)
        self.screenshot("policy")
        self.admin("PUT", "policy", '[[rule]]\nname = "only"\nkey = ["user"]\nlimit = "7/min"\n')
        self.until(lambda: 'name = "only"' in self.text("#policy"), "another is shown when it is in force")

    def test_a_limit_is_simulated(self):
        self.open(view="#simulate")
        self.until(lambda: self.js("return document.getElementById('sim-limit').value") == "5/h", "the first rule's limit is taken")
        limit, traffic = self.find("#sim-limit"), self.find("#sim-traffic")
        limit.clear()
        limit.send_keys("100/min burst 20")
        traffic.clear()
        traffic.send_keys("steady 20/s for 1min" + Keys.ENTER)
        self.until(lambda: "119 of 1,200" in self.text("#simulated"), "as the library says")
        self.click("#sim-compare")
        self.click("#sim-run")
        self.until(lambda: len(self.all("#simulated article")) == 6, "all algorithms")
        self.screen(1280, 1500)
        self.screenshot("simulate")
        traffic.clear()
        traffic.send_keys("stedy" + Keys.ENTER)
        self.until(lambda: "did you mean" in self.text("#simulated .error"), "the error is shown")


class DashboardKeys(BrowserTest):
    def test_a_dialog_opened_while_another_one_closes_still_acts(self):
        self.use_up()
        self.open(view="#keys/tenant=acme")
        self.press("Reset …", self.card("per-tenant"))
        # The event that reports the close is dispatched later: the second dialog opens before it.
        self.js(REOPEN, self.card("per-tenant"))
        self.confirm()
        self.until(lambda: self.text(self.card("per-tenant") + " .amount") == "5 of 5", "the key is reset")

    def test_a_key_is_found_and_a_reset_changes_what_is_decided(self):
        self.use_up()
        self.assertFalse(self.check(tenant="acme")["allowed"])
        self.open(view="#keys")
        self.look_up("acm")
        self.until(lambda: "tenant=acme" in [row["Key"] for row in self.rows("#found")], "it is found")
        self.click("#found a")
        card = self.card("per-tenant")
        self.until(lambda: self.text(f"{card} .amount") == "0 of 5" and self.exists(f"{card}.spent .verdict.bad"), "it is empty")
        self.assertIn("The next request would be denied: over the limit of rule per-tenant.", self.text(".answer.bad"))
        self.press("Reset …", card)
        self.assertIn("tenant=acme", self.text("#dialog-body"))
        self.assertFalse(self.check(tenant="acme")["allowed"], "nothing is done before it is confirmed")
        self.confirm()
        self.until(lambda: self.text(f"{card} .amount") == "5 of 5", "the picture is full")
        self.assertTrue(self.check(tenant="acme")["allowed"])
        self.until(lambda: "audit log" in self.text("#said:not(.wrong)"), "the notice is shown")
        written = [json.loads(line) for line in self.audit.read_text().splitlines()]
        self.assertEqual([(change["actor"], change["action"]) for change in written], [("walt", "reset")])
        self.visit("changes")
        self.until(lambda: [(row["User"], row["Action"]) for row in self.rows("#changes")] == [("walt", "reset")], "the change is shown")
        change = self.rows("#changes")[0]
        self.assertEqual([change[name] for name in ("IP", "Target", "Before", "After")],
                         ["127.0.0.1", "tenant=acme, rule per-tenant", "0 left", "5 left"])
        self.assertRegex(change["Time"], r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC([+-]\d+(:\d\d)?)?$")

    def test_blocks_and_overrides_change_what_is_decided(self):
        self.open(view="#keys/tenant=globex")
        card = self.card("per-tenant")
        self.press("Block …", card)
        self.confirm()
        self.until(lambda: self.exists(f"{card}.blocked") and "Blocked for" in self.text(card), "it is blocked")
        self.assertEqual(self.check(tenant="globex")["reason"], "block")
        self.press("Unblock …", card)
        self.confirm()
        self.until(lambda: self.exists(f"{card}:not(.blocked) .verdict.good"), "it is not blocked")
        self.assertTrue(self.check(tenant="globex")["allowed"])
        self.press("Override …", card)
        limit = self.find("#override-limit")
        limit.clear()
        limit.send_keys("fast")
        self.click("#dialog-yes")
        self.until(lambda: "Could not save: " in self.text("#dialog[open] #dialog-error"), "the error is shown")
        limit.clear()
        limit.send_keys("70/min")
        self.screenshot("override")
        self.confirm()
        self.until(lambda: "70/min (run-time override)" in self.text(card), "it is in force")
        self.assertEqual(self.check(tenant="globex")["limit"], 70)
        self.visit("keys")
        listed = lambda: [(row["Client"], row["Has"]) for row in self.rows("#overrides")]
        self.until(lambda: listed() == [("tenant=globex", "per-tenant: 70/min")], "it is listed")
        self.press("Remove …", "#overrides")
        self.confirm()
        self.find("#overrides .empty")
        self.assertEqual(self.check(tenant="globex")["limit"], 5)

    def test_an_override_of_the_policy_file_is_removed_only_in_the_file(self):
        entry = '[[override]]\nclient = { tenant = "acme" }\nlimits = { per-tenant = "50/min" }\n'
        self.admin("PUT", "policy", POLICY + entry)
        self.admin("PUT", "overrides", json.dumps({"client": {"tenant": "globex"}, "limits": {"per-tenant": "70/min"}}))
        self.open(view="#keys")
        listed = lambda: {row["Client"]: (row["Has"], row["Source"]) for row in self.rows("#overrides")}
        expected = {"tenant=acme": ("per-tenant: 50/min", "policy file"), "tenant=globex": ("per-tenant: 70/min", "run time")}
        self.until(lambda: listed() == expected, "both are listed with their source")
        self.assertEqual(len(self.all("#overrides button")), 1, "only the one of run time can be removed")
        self.assertIn("change the file", self.text("#overrides"))
        self.screenshot("overrides")
        self.visit("keys/tenant=acme")
        self.until(lambda: "50/min (override of the policy file)" in self.text(self.card("per-tenant")), "the source is shown")

    def test_a_hostile_key_is_text_and_no_script_runs(self):
        self.use_up(HOSTILE)
        self.open()
        self.until(lambda: HOSTILE in self.text("#refused"), "it is shown as text")
        self.click("#refused button")
        self.until(lambda: HOSTILE in self.text("#key h2"), "it is the key that is shown")
        card = self.card("per-tenant")
        self.until(lambda: self.text(f"{card} .amount") == "0 of 5", "and how it stands")
        self.screenshot("hostile")
        self.press("Reset …", card)
        self.confirm()
        self.until(lambda: self.text(f"{card} .amount") == "5 of 5", "the change is made to it")
        self.look_up("onerror")
        self.until(lambda: HOSTILE in self.text("#found"), "it is found")
        self.visit("changes")
        self.until(lambda: HOSTILE in self.text("#changes"), "in the log, too")
        self.assertEqual(self.js("return document.querySelectorAll('main img, main script').length"), 0)
        refused = """try { document.body.innerHTML = '<img src=x onerror="window.ran = 1">'; return 'done'; }
                     catch (error) { return error.name; }"""
        self.assertEqual(self.js(refused), "TypeError", "markup cannot be made of text")
        self.js("""window.violated = [];
                   addEventListener('securitypolicyviolation', (event) => window.violated.push(event.effectiveDirective));
                   const of = document.createElement('b'); of.setAttribute('style', 'color: red'); document.body.append(of)""")
        self.until(lambda: self.js("return window.violated") == ["style-src-attr"], "inline styles are refused")
        self.assertIsNone(self.js("return window.ran ?? null"))

    def test_a_key_is_reset_by_keyboard_alone(self):
        self.use_up()
        self.driver.get(self.url)
        self.find("#token")
        self.until(lambda: self.js("return document.activeElement.id") == "token", "the token is asked for")
        self.keys(WRITE, Keys.ENTER)
        self.is_live()
        self.tab_to("Keys")
        self.keys(Keys.ENTER)
        self.find("#find-text")
        self.tab_to("find-text")
        self.keys("tenant=acme", Keys.ENTER)
        self.card("per-tenant")
        self.tab_to("Reset …")
        self.assertTrue(self.js("return getComputedStyle(document.activeElement).outlineStyle !== 'none'"), "focus is seen")
        self.keys(Keys.ENTER)
        self.find("#dialog-yes")
        self.closes_dialog(lambda: self.keys(Keys.ESCAPE))
        self.assertFalse(self.check(tenant="acme")["allowed"])
        self.until(lambda: self.js("return document.activeElement.innerText") == "Reset …", "focus comes back")
        self.keys(Keys.ENTER)
        self.find("#dialog-yes")
        self.keys(Keys.ENTER)
        self.until(lambda: self.text(self.card("per-tenant") + " .amount") == "5 of 5", "it is reset")
        self.assertTrue(self.check(tenant="acme")["allowed"])

    def tab_to(self, name):
        here = "const of = document.activeElement; return [of.id, of.innerText]"
        for _ in range(60):
            if name in self.js(here):
                return
            self.keys(Keys.TAB)
        self.fail(f"{name} cannot be reached")


class DashboardLayout(BrowserTest):
    def test_a_phone_scrolls_in_one_direction(self):
        self.use_up("a" * 200)
        self.screen(360, 740, 2)
        self.open()
        self.traffic()
        self.until(lambda: "acme" in self.text("#refused"), "refused keys are shown")
        for view in ["live", "keys", "keys/tenant=" + "a" * 200, "policy", "simulate", "changes"]:
            self.visit(view)
            self.assertLessEqual(self.js("return document.documentElement.scrollWidth"), 360, view)
        self.visit("live")
        self.screenshot("phone")
        self.screen(360, 3200, 1)
        self.until(lambda: self.js("return innerHeight") == 3200, "the screen is resized")
        self.screenshot("phone-whole")

    def test_changes_can_be_read_on_a_phone(self):
        client = {"tenant": "a-tenant-with-a-rather-long-name.example"}
        key = {"rule": "per-tenant", "key": client}
        self.admin("POST", "blocks", json.dumps({**key, "for_seconds": 900}))
        self.admin("POST", "keys/reset", json.dumps(key))
        for limit in ["500/min", "900/min burst 100"]:
            self.admin("PUT", "overrides", json.dumps({"client": client, "limits": {"per-tenant": limit}, "for_seconds": 3600}))
        self.admin("PUT", "policy", POLICY + '[[rule]]\nname = "added"\nlimit = "7/min"\n')
        self.open(view="#changes")
        actions = ["apply policy", "set override", "set override", "reset", "block"]
        self.until(lambda: [row["Action"] for row in self.rows("#changes")] == actions, "all are listed, the newest first")
        self.screenshot("changes")
        self.screen(390, 1500, 2)
        self.until(lambda: self.js("return innerWidth") == 390, "the screen is resized")
        self.assertLessEqual(self.js("return document.documentElement.scrollWidth"), 390)
        cells = "return [...document.querySelectorAll('#changes td')].filter((cell) => cell.scrollWidth > cell.clientWidth).length"
        self.assertEqual(self.js(cells), 0, "every cell is shown whole")
        rows = self.rows("#changes")
        self.assertIn("rules added: added", rows[0]["Target"])
        self.assertRegex(rows[0]["Before"], r"^version [0-9a-f]{16}\s4 rules$")
        self.assertRegex(rows[0]["After"], r"^version [0-9a-f]{16}\s5 rules$")
        self.assertEqual(rows[1]["Target"], "tenant=" + client["tenant"])
        self.assertIn("per-tenant: 500/min", rows[1]["Before"])
        self.assertIn("per-tenant: 900/min burst 100", rows[1]["After"])
        self.assertIn("blocked until", rows[4]["After"])
        self.screenshot("changes-phone")

    def test_dark_follows_the_system_and_can_be_chosen(self):
        back = lambda: self.js("return getComputedStyle(document.body).backgroundColor")
        self.media(prefers_color_scheme="dark")
        self.open()
        dark = back()
        self.media(prefers_color_scheme="light")
        self.until(lambda: back() != dark, "the page follows the system")
        light = back()
        self.press("Auto", "header")
        self.press("Light", "header")
        self.until(lambda: back() == dark, "dark is chosen")
        self.driver.refresh()
        self.is_live()
        self.assertEqual(back(), dark, "it stays chosen")
        self.assertEqual(self.complaints(), [])
        self.press("Dark", "header")
        self.until(lambda: back() == light, "the page follows the system again")

    def test_everything_that_has_the_focus_has_a_name(self):
        self.use_up()
        self.open()
        self.until(lambda: "acme" in self.text("#refused"), "the refused key is shown")
        self.driver.execute_cdp_cmd("Accessibility.enable", {})
        for view in ["live", "keys", "keys/tenant=acme", "policy", "simulate", "changes"]:
            self.visit(view)
            nodes = self.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
            roles = [node["role"]["value"] for node in nodes if not node["ignored"]]
            self.assertTrue({"banner", "navigation", "main"} <= set(roles), roles)
            for node in nodes:
                of = {entry["name"]: entry["value"].get("value") for entry in node.get("properties", [])}
                if of.get("focusable") and not node["ignored"] and node["role"]["value"] not in ("RootWebArea", "main", "heading"):
                    self.assertTrue(node.get("name", {}).get("value"), (view, node))

    def test_pictures_for_people(self):
        self.traffic()
        self.open()
        self.until(lambda: self.total("per-user") >= DECISIONS, "there is something to see")
        self.screen(1280, 1150)
        self.until(lambda: self.js("return innerHeight") == 1150, "the screen is resized")
        self.screenshot("desktop")
        self.media(prefers_color_scheme="dark")
        self.until(lambda: self.js("return matchMedia('(prefers-color-scheme: dark)').matches"), "it is dark")
        self.screenshot("dark")
        self.media()
        self.screen(1280, 900)
        self.admin("POST", "blocks", json.dumps({"rule": "per-tenant", "key": {"tenant": "globex"}, "for_seconds": 900}))
        self.visit("keys/tenant=acme&user=3&ip=10.0.0.2&route=%2Fsearch")
        self.screenshot("key")
        self.press("Reset …")
        self.find("#dialog-yes")
        self.screenshot("reset")
        self.closes_dialog(lambda: self.keys(Keys.ESCAPE))
        self.visit("keys")
        self.find("#blocks a")
        self.screenshot("keys")
