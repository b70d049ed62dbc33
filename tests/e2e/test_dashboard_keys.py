"""The screens of one client: ruling, rules, other keys, dialogs; and names that clients choose."""

import time
import unittest

from browser import BrowserTest
from support import Folder, Running, free_port, program

# A zone in which it is about noon, so that no day ends while a test runs.
NOON = f"Etc/GMT{time.gmtime().tm_hour - 12:+d}"

POLICY = f"""
[[rule]]
name = "tenant"
key = ["tenant"]
limit = "50/h"

[[rule]]
name = "user"
key = ["tenant", "user"]
limit = "2/h"

[[rule]]
name = "trial"
key = ["tenant"]
limit = "1/h"
shadow = true

[[rule]]
name = "daily"
match = {{ plan = "free" }}
key = ["plan"]
limits = [{{ algorithm = "fixed_window", count = 500, per = "day", align = "calendar", zone = "{NOON}" }}]

[[rule]]
name = "search"
match = {{ route = "/search" }}
key = ["ip"]
limit = "3/h"

[[deny]]
name = "banned"
match = {{ tenant = "mallory" }}
"""

# Before the page's own scripts: notes every text that a card's amount ever has, the answers that it got, and
# whether a picture is drawn in an animation frame.
OBSERVE = """
window.seen = { amounts: [], answers: 0, inFrames: 0 };
const [ask, request, set] = [window.fetch, window.requestAnimationFrame, Element.prototype.setAttribute];
window.fetch = async (path, options) => {
  const answer = await ask(path, options);
  if (String(path).endsWith("keys/status")) window.seen.answers += 1;
  return answer;
};
let inFrame = false;
window.requestAnimationFrame = (draw) => request((time) => { inFrame = true; try { draw(time); } finally { inFrame = false; } });
Element.prototype.setAttribute = function (name, value) {
  if (name === "y" && inFrame && this.matches(".water")) window.seen.inFrames += 1;
  set.call(this, name, value);
};
new MutationObserver(() => {
  for (const amount of document.querySelectorAll(".amount")) {
    if (!window.seen.amounts.includes(amount.textContent)) window.seen.amounts.push(amount.textContent);
  }
}).observe(document, { subtree: true, childList: true, characterData: true });
"""

# Controls, a bidirectional override, Hebrew, a mark that combines, and what stays as it is.
HOSTILE = "\u202enimda\u2066 \u05e9\u05dc e\u0301\x07 \u9375\\u{41}"
ESCAPED = r'"\u{202e}nimda\u{2066} \u{5e9}\u{5dc} e\u{301}\u{7} ' + "\u9375" + r'\\u{41}"'


class KeyDetail(BrowserTest):
    def serve(self, *arguments):
        super().serve(*arguments, policy=POLICY)

    def deny(self, **attributes):
        while self.check(**attributes)["allowed"]:
            pass

    def cards(self):
        return [card.get_attribute("data-rule") for card in self.all("#key article")]

    def other_keys(self):
        return [(row["Key"], row["Rule"]) for row in self.rows("#others")]

    def test_figures_are_those_of_the_server_and_have_an_age(self):
        self.check(cost=500, plan="free")
        script = self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": OBSERVE})
        self.addCleanup(self.driver.execute_cdp_cmd, "Page.removeScriptToEvaluateOnNewDocument", script)
        self.open(view="#keys/plan=free")
        card = self.card("daily")
        self.until(lambda: self.js("return window.seen.answers") >= 3, "the page asks again by itself")
        self.assertEqual(self.js("return window.seen.amounts"), ["0 of 500"])
        self.assertEqual(self.js("return window.seen.inFrames"), 0, "pictures change with an answer alone")
        self.assertRegex(self.text(f"{card} .verdict"), "^Over limit, next in ")
        self.assertRegex(self.text(".age"), r"^Figures as of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC")
        self.server.kill()
        self.until(lambda: "No newer figures: " in self.text(".age.error"), "the figures are said to be old")
        self.assertEqual(self.text(f"{card} .amount"), "0 of 500")

    def test_the_rule_that_denies_comes_first_and_is_marked(self):
        self.deny(tenant="globex", user="scraper-7")
        self.open(view="#keys/tenant=globex&user=scraper-7")
        card = self.card("user")
        self.assertEqual(self.cards(), ["user", "tenant", "trial"])
        self.assertEqual(self.text(".answer.bad"), "The next request would be denied: over the limit of rule user.")
        self.assertEqual([marked.get_attribute("data-rule") for marked in self.all("[aria-current=true].card")], ["user"])
        self.assertRegex(self.text(f"{card} .verdict.bad"), "^Over limit, next in ")
        self.assertEqual(self.text(f"{card} .hint"), "2/h (rule default) · key tenant=globex user=scraper-7")
        self.assertEqual(self.text("[data-rule=tenant] .verdict.good"), "OK")
        self.assertRegex(self.text("[data-rule=trial] .verdict:not(.bad)"), "^Shadow: would deny for ")
        self.press("Reset …", card)
        self.confirm()
        self.until(lambda: self.text(".answer:not(.bad)") == "The next request would be allowed.", "it is allowed")
        self.assertEqual(self.all(".card.deciding"), [])

    def test_a_change_of_a_wider_key_says_whom_it_affects(self):
        self.open(view="#keys/tenant=globex&user=scraper-7")
        affects = "Affects all users of tenant=globex, not only user=scraper-7."
        for button in ["Block …", "Reset …"]:
            self.press(button, self.card("tenant"))
            self.until(lambda: affects in self.text("#dialog-body .warning"), "the dialog warns")
            self.closes_dialog(lambda: self.click("#dialog-no"))
            self.press(button, self.card("user"))
            self.until(lambda: "tenant=globex user=scraper-7" in self.text("#dialog-body"), "the dialog is about the key")
            self.assertEqual(self.all("#dialog-body .warning"), [])
            self.closes_dialog(lambda: self.click("#dialog-no"))

    def test_an_attribute_finds_all_active_keys_and_no_rule_is_no_all_clear(self):
        self.deny(tenant="globex", user="scraper-7")
        self.check(tenant="acme", user="scraper-7")
        self.check(tenant="acme", user="scraper-77")
        self.open()
        self.look_up("user=scraper-7")
        found = [("tenant=globex user=scraper-7", "user"), ("tenant=acme user=scraper-7", "user")]
        self.until(lambda: self.other_keys() == found, "the denied one comes first")
        answer = self.text(".answer.unknown")
        self.assertEqual(answer, "No rule matches these attributes. Rules need: tenant, tenant + user, plan, route + ip.")
        self.assertEqual(self.cards(), [])
        self.press("Block …", "#others")
        self.confirm()
        self.until(lambda: self.rows("#others")[0]["State"].startswith("Blocked for"), "it is blocked")
        self.click("#others a")
        self.until(lambda: self.cards()[:1] == ["user"] and "blocked under rule user" in self.text(".answer.bad"), "its own screen")
        self.until(lambda: self.other_keys() == [], "a key with a card is not listed again")

    def test_a_list_decides_and_no_rule_shows_otherwise(self):
        self.open(view="#keys/tenant=mallory")
        card = self.card("tenant")
        self.assertEqual(self.text(".answer.bad"), "The next request would be denied: on the deny list banned.")
        self.assertEqual(self.text(f"{card} .verdict"), "Not evaluated: the list banned decides")
        self.assertEqual(self.all("#key .verdict.good"), [])

    def test_a_text_search_that_finds_nothing_says_what_else_to_try(self):
        self.open()
        self.look_up("zzz")
        self.until(lambda: self.text("#found") == "No active key contains “zzz”. Idle keys are not listed; look one up by attribute, e.g. user=zzz.", "the hint is shown")

    def test_control_and_bidirectional_characters_are_shown_escaped(self):
        self.deny(tenant=HOSTILE, user="7")
        key = f"tenant={ESCAPED} user=7"
        raw = lambda: [c for c in self.js("return document.body.innerText + document.getElementById('find-text').value") if c in "\u202e\u2066\u05e9\u0301\x07"]
        self.open()
        self.until(lambda: key in self.text("#refused"), "in the table of denied keys")
        self.assertEqual(raw(), [])
        self.click("#refused button")
        self.until(lambda: self.text("#key h2") == key, "in the title")
        self.assertEqual(self.js("return document.getElementById('find-text').value"), key)
        self.assertIn(key, self.text(self.card("user")))
        self.press("Reset …", self.card("user"))
        self.until(lambda: key in self.text("#dialog-body"), "in the dialog")
        self.assertEqual(raw(), [])
        self.confirm()
        self.assertTrue(self.check(tenant=HOSTILE, user="7")["allowed"], "the key that was meant was reset")
        # What is shown can be typed.
        self.look_up(f"tenant={ESCAPED}")
        self.until(lambda: self.text("#key h2") == f"tenant={ESCAPED}", "it is found as it is written")
        self.look_up("nimda")
        self.until(lambda: ESCAPED in self.text("#found"), "among the keys found")
        self.visit("changes")
        self.until(lambda: r"\u{202e}nimda" in self.text("#changes"), "in the log")
        self.assertEqual(raw(), [])


@unittest.skipUnless(program("redis-server"), "needs redis-server")
class Outage(BrowserTest):
    def test_a_banner_names_each_kind_of_fallback(self):
        self.open()
        text = """
        const done = arguments[arguments.length - 1];
        import("/page/outage.js").then((page) => done(arguments[0].map(page.fallbackText)));
        """
        kinds = [(1, 2, 0, 0), (3, 2, 0, 0), (3, 0, 2, 0), (3, 0, 0, 1), (3, 12, 1, 2)]
        of = [dict(zip(["nodes", "local", "allow", "deny"], kind)) for kind in kinds]
        self.assertEqual(self.driver.execute_async_script(text, of), [
            "local limits, on this node alone",
            "local limits, each node enforces 1/3",
            "all rules allow without counting",
            "all rules deny",
            "12 rules with local limits (each node enforces 1/3), 2 rules deny, 1 rule allows without counting",
        ])

    def test_an_unavailable_redis_is_a_banner_until_it_recovers(self):
        port = free_port()
        redis = [program("redis-server"), "--port", port, "--save", ""]
        with Folder() as folder, Running(redis, [port], folder.path) as store:
            # The longest timeout: a slow answer of Redis on a busy machine is no outage.
            self.serve("--store", f"redis://127.0.0.1:{port}", "--nodes", "3", "--store-timeout", "10s")
            self.open()
            self.assertEqual(self.text("#outage"), "")
            store.kill()
            self.check(tenant="acme")
            expected = rf"^Redis 127\.0\.0\.1:{port} unavailable for \d+ s: local limits, each node enforces 1/3\. "
            self.until(lambda: self.exists(".bar.alarm #outage:not([hidden])"), "the banner is shown")
            self.assertRegex(self.text("#outage"), expected)
            self.assertEqual(self.text("#connection.gone"), "Degraded")
            self.driver.get(f"{self.url}/#keys/tenant=acme")
            self.until(lambda: "figures are the local limits of this node" in self.text("#key .error"), "figures say so, too")
            with Running(redis, [port], folder.path):
                self.until(lambda: self.exists(".bar:not(.alarm) #outage[hidden]"), "the banner goes")
                self.is_live()


if __name__ == "__main__":
    unittest.main()
