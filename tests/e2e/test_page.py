"""The page at /, in a real browser. Screenshots for people are written to target/screenshots."""

import json
import os
import pathlib
import shutil
import threading
import time
import unittest

from page_server import PageServer
from support import ROOT, ask, wait_until

try:
    from selenium import webdriver
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None

POLICY = """
tier_from = "tier"

[tiers.pro]
per-tenant = "50/h"

[[rule]]
name = "per-tenant"
key = ["tenant"]
limit = "5/h"

[[rule]]
name = "per-user"
key = ["user"]
limit = "30/min burst 10"

[[rule]]
name = "search"
match = { route = "/search" }
key = ["ip"]
limit = "20/s fixed_window"

[[rule]]
name = "trial"
key = ["tenant"]
limit = "2/min"
shadow = true
"""

READ, WRITE = "read-read-read-read", "write-write-write-write"
HOSTILE = "<img src=x onerror=alert(1)>"
SCREENSHOTS = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "screenshots"


def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1280,900",
                     "--disable-background-networking", "--no-first-run", "--hide-scrollbars", "--lang=en-GB"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


@unittest.skipUnless(webdriver and shutil.which("chromedriver"), "needs selenium and chromium-driver, see tests/e2e/setup.sh")
class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        cls.driver = browser()
        cls.addClassCleanup(cls.driver.quit)

    def setUp(self):
        tokens = f"rita read {READ}\nwalt write {WRITE}\n"
        self.server = PageServer(POLICY, "--admin-tokens", "tokens", "--audit", "audit.jsonl", tokens=tokens)
        self.addCleanup(self.server.remove)
        self.audit = pathlib.Path(self.server.folder.path) / "audit.jsonl"
        self.url = self.server.url
        # The page of the test before would go on asking for its server.
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.media()
        self.screen(1280, 900)

    # What a person does.

    def open(self, token=WRITE, view=""):
        """Opens the page, and enters the token."""
        self.driver.get(self.url + "/" + view)
        self.find("#token").send_keys(token + Keys.ENTER)
        self.until(lambda: self.text("#connection") == "Live", "it is live")

    def find(self, selector):
        seen = []

        def is_seen():
            seen[:] = [one for one in self.all(selector) if one.is_displayed()]
            return seen

        self.until(is_seen, f"{selector} is seen")
        return seen[0]

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, is_so, what):
        def is_so_now():
            try:
                return is_so()
            except StaleElementReferenceException:
                # The page was drawn anew while we looked at it.
                return False

        wait_until(lambda: f"{what}: {self.text('main')[:2000]}", is_so_now)

    def press(self, text, inside="main"):
        def is_pressed():
            buttons = [one for one in self.all(f"{inside} button") if one.is_displayed() and one.text == text]
            if buttons:
                buttons[0].click()
            return buttons

        self.until(is_pressed, f"the button {text!r} is pressed")

    def confirm(self):
        self.find("#dialog-yes").click()
        self.until(lambda: not self.js("return document.getElementById('dialog').open"), "the dialog closes")

    def look_up(self, text):
        self.driver.get(self.url + "/#keys")
        box = self.find("#find-text")
        box.clear()
        box.send_keys(text + Keys.ENTER)

    def card(self, rule):
        selector = f"[data-rule={json.dumps(rule)}]"
        self.find(selector)
        return selector

    def screen(self, width, height, dense=1):
        metrics = {"width": width, "height": height, "deviceScaleFactor": dense, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def media(self, **features):
        named = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": named})

    def screenshot(self, name):
        self.driver.save_screenshot(str(SCREENSHOTS / f"{name}.png"))

    def said(self):
        """What the browser complains about."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    # What programs do.

    def check(self, **attributes):
        answer = ask(self.server.port, "/v1/check", "POST", body=json.dumps({"attributes": attributes}))
        return json.loads(answer.body)

    def admin(self, path, body):
        return ask(self.server.port, f"/admin/v1/{path}", "POST", {"authorization": f"Bearer {WRITE}"}, json.dumps(body))

    def use_up(self, tenant="acme"):
        while self.check(tenant=tenant)["allowed"]:
            pass

    def traffic(self, seconds=None):
        """Requests of several clients until the test ends."""
        stop = threading.Event()

        def run():
            turn = 0
            while not stop.wait(0.01):
                for n in range(1 + turn % 5):
                    self.check(user=str((turn * 7 + n) % 211), ip=f"10.0.0.{turn % 9}", route="/search")
                if turn % 4 == 0:
                    self.check(tenant=["acme", "globex", "initech"][turn % 3])
                if turn % 16 == 0:
                    self.check(tenant=HOSTILE)
                turn += 1

        def ignoring():
            try:
                run()
            except OSError:
                pass

        thread = threading.Thread(target=ignoring)
        thread.start()

        def end():
            stop.set()
            thread.join()

        self.addCleanup(end)
        if seconds is not None:
            time.sleep(seconds)
        return end

    # What is claimed.

    def test_it_loads_without_complaints_and_shows_live_numbers(self):
        self.open()
        self.traffic()
        number = lambda: float(self.text("#tiles > div:first-child dd").replace(",", "").replace("<", "") or 0)
        self.until(lambda: number() > 1, "decisions are counted")
        self.until(lambda: "acme" in self.text("#refused"), "who is refused is shown")
        row = next(one.text for one in self.all("#refused tr") if "acme" in one.text)
        self.assertIn("per-tenant", row)
        self.assertIn("over its limit", row)
        self.until(lambda: "per-user" in self.text("#rules") and "search" in self.text("#rules"), "rules are shown")
        self.until(lambda: "HTTP" in self.text("#latency-legend"), "latency is shown")
        for word in ["Ready", "In memory", "4 rules"]:
            self.assertIn(word, self.text("#health"))
        drawn = "const c = document.getElementById(arguments[0]); return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((byte) => byte > 0)"
        self.assertTrue(self.js(drawn, "decisions") and self.js(drawn, "latency"))
        self.assertEqual(self.said(), [])

    def test_without_a_token_only_health_is_shown(self):
        self.driver.get(self.url)
        self.until(lambda: "The server is up. Ready." in self.text("#enter-health"), "health")
        self.assertEqual([one.text for one in self.all("nav a") if one.is_displayed()], [])
        self.assertEqual(self.said(), [])
        self.screenshot("enter")
        self.find("#token").send_keys("wrong-wrong-wrong-wrong" + Keys.ENTER)
        self.until(lambda: "token is wrong" in self.text("#enter-error"), "the wrong token is told")
        self.find("#token").send_keys(READ + Keys.ENTER)
        self.until(lambda: self.text("#connection") == "Live", "it is live")
        stored = self.js("return [JSON.stringify(localStorage), document.cookie, location.href, document.documentElement.outerHTML].join()")
        self.assertNotIn(READ, stored)
        self.assertEqual(self.js("return Object.values(sessionStorage)"), [READ])
        self.use_up()
        self.look_up("tenant=acme")
        self.until(lambda: "0 of 5" in self.text(self.card("per-tenant")), "who may read sees it")
        self.assertEqual(self.all("article button"), [])
        self.press("Sign out", "header")
        self.find("#token")
        self.assertEqual(self.js("return sessionStorage.length"), 0)

    def test_on_this_machine_without_tokens_it_opens_at_once(self):
        server = PageServer(POLICY, "--insecure-admin")
        self.addCleanup(server.remove)
        self.driver.get(server.url)
        self.until(lambda: self.text("#connection") == "Live", "it is live")
        self.assertEqual(self.said(), [])
        self.driver.get(server.url + "/#keys/tenant=acme")
        self.find("[data-rule=per-tenant]")
        self.press("Block …")
        self.confirm()
        self.until(lambda: "Blocked for" in self.text("[data-rule=per-tenant]"), "it may change things")

    def test_a_key_is_found_and_a_reset_changes_what_is_decided(self):
        self.use_up()
        self.assertFalse(self.check(tenant="acme")["allowed"])
        self.open(view="#keys")
        self.look_up("acm")
        self.until(lambda: "tenant=acme" in self.text("#found"), "it is found")
        self.find("#found a").click()
        card = self.card("per-tenant")
        self.until(lambda: "0 of 5" in self.text(card) and "Refuses for" in self.text(card), "it is empty")
        self.assertIn("It would be refused: by the rule per-tenant", self.text(".answer"))
        self.press("Reset …", card)
        self.assertIn("tenant=acme", self.text("#dialog-body"))
        self.assertFalse(self.check(tenant="acme")["allowed"], "nothing is done before it is confirmed")
        self.confirm()
        self.until(lambda: "5 of 5" in self.text(card), "the picture is full")
        self.assertTrue(self.check(tenant="acme")["allowed"])
        self.assertIn("audit log", self.text("#said"))
        written = [json.loads(line) for line in self.audit.read_text().splitlines()]
        self.assertEqual([(of["who"], of["action"]) for of in written], [("walt", "reset")])
        self.driver.get(self.url + "/#changes")
        self.until(lambda: "walt" in self.text("#changes") and "acme" in self.text("#changes"), "the change is told")

    def test_blocks_and_overrides_change_what_is_decided(self):
        self.open(view="#keys/tenant=globex")
        card = self.card("per-tenant")
        self.press("Block …", card)
        self.confirm()
        self.until(lambda: "Blocked for" in self.text(card), "it is blocked")
        self.assertFalse(self.check(tenant="globex")["allowed"])
        self.press("Unblock …", card)
        self.confirm()
        self.until(lambda: "Allows" in self.text(card), "it is not blocked")
        self.assertTrue(self.check(tenant="globex")["allowed"])
        self.press("Override …", card)
        limit = self.find("#override-limit")
        limit.clear()
        limit.send_keys("fast")
        self.find("#dialog-yes").click()
        self.until(lambda: "Not done" in self.text("#dialog-error"), "a wrong limit is told")
        limit.clear()
        limit.send_keys("70/min")
        self.screenshot("override")
        self.confirm()
        self.until(lambda: "70/min, by an override" in self.text(card), "it is in force")
        self.assertEqual(self.check(tenant="globex")["limit"], 70)
        self.driver.get(self.url + "/#keys")
        self.until(lambda: "per-tenant: 70/min" in self.text("#overrides"), "it is listed")
        self.press("Remove …", "#overrides")
        self.confirm()
        self.until(lambda: "No client" in self.text("#overrides"), "it is gone")
        self.assertEqual(self.check(tenant="globex")["limit"], 5)

    def test_a_hostile_key_is_text_and_no_script_runs(self):
        self.use_up(HOSTILE)
        self.open()
        self.until(lambda: HOSTILE in self.text("#refused"), "it is shown as text")
        self.find("#refused button").click()
        self.until(lambda: HOSTILE in self.text("#key h2"), "it is the key that is shown")
        self.until(lambda: "0 of 5" in self.text(self.card("per-tenant")), "and how it stands")
        self.screenshot("hostile")
        self.press("Reset …", self.card("per-tenant"))
        self.confirm()
        self.until(lambda: "5 of 5" in self.text(self.card("per-tenant")), "and what is done is done to it")
        self.look_up("onerror")
        self.find("#blocks")
        self.driver.get(self.url + "/#changes")
        self.until(lambda: HOSTILE in self.text("#changes"), "in the log, too")
        self.assertEqual(self.js("return document.querySelectorAll('main img, main script').length"), 0)
        refused = """try { document.body.innerHTML = '<img src=x onerror="window.ran = 1">'; return 'done'; }
                     catch (error) { return error.name; }"""
        self.assertEqual(self.js(refused), "TypeError", "markup cannot be made of text")
        self.js("const of = document.createElement('b'); of.setAttribute('style', 'color: red'); document.body.append(of)")
        self.assertTrue(any("Content Security Policy" in line for line in self.said()), "inline styles are refused")
        self.assertIsNone(self.js("return window.ran ?? null"))

    def test_a_lost_connection_is_shown_and_recovers_by_itself(self):
        self.open()
        self.until(lambda: "Ready" in self.text("#health"), "it is live")
        end = self.traffic(1.5)
        self.server.kill()
        end()
        self.until(lambda: self.text("#connection") == "Lost", "it is lost")
        self.until(lambda: "Connection lost" in self.text("#lost") and "Trying again" in self.text("#lost"), "and told")
        self.screenshot("lost")
        self.server.start()
        self.until(lambda: self.text("#connection") == "Live", "it is back")
        self.assertFalse(self.driver.find_element(By.ID, "lost").is_displayed())
        self.check(user="after")
        self.until(lambda: "1" == self.js("return document.querySelector('#rules tr:nth-child(2) td:last-child').innerText"), "counts are the new server's")

    def test_a_server_that_stops_does_not_wait_for_pages(self):
        self.open()
        before = time.monotonic()
        self.assertEqual(self.server.stop(), 0)
        self.assertLess(time.monotonic() - before, 5)

    def test_a_policy_and_what_it_would_do_are_shown(self):
        self.open(view="#policy")
        self.until(lambda: 'name = "per-tenant"' in self.text("#policy"), "the policy")
        self.find("#explain-text").send_keys("user=42 route=/search ip=10.0.0.1" + Keys.ENTER)
        self.until(lambda: "It would be allowed" in self.text("#explained"), "the answer")
        self.assertEqual([one.get_attribute("data-rule") for one in self.all("#explained article")], ["per-user", "search"])
        self.find("#explained summary").click()
        self.assertIn('it counts by "tenant", which is absent', self.text("#explained"))
        self.screenshot("policy")
        ask(self.server.port, "/admin/v1/policy", "PUT", {"authorization": f"Bearer {WRITE}"},
            '[[rule]]\nname = "only"\nkey = ["user"]\nlimit = "7/min"\n')
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
        self.find("#sim-compare").click()
        self.find("#sim-run").click()
        self.until(lambda: len(self.all("#simulated article")) == 6, "all algorithms")
        self.screen(1280, 1500)
        self.screenshot("simulate")
        traffic.clear()
        traffic.send_keys("stedy" + Keys.ENTER)
        self.until(lambda: "did you mean" in self.text("#simulated"), "what is wrong is told")

    def test_a_phone_scrolls_in_one_direction(self):
        self.use_up("a" * 200)
        self.screen(360, 740, 2)
        self.open()
        self.traffic()
        self.until(lambda: "acme" in self.text("#refused"), "numbers")
        for view in ["", "#keys", "#keys/tenant=" + "a" * 200, "#policy", "#simulate", "#changes"]:
            self.driver.get(self.url + "/" + view)
            self.until(lambda: self.text("#connection") == "Live", "it is live")
            time.sleep(0.2)
            widths = self.js("return [document.documentElement.scrollWidth, innerWidth]")
            self.assertLessEqual(widths[0], 360, view)
        self.driver.get(self.url + "/#live")
        time.sleep(0.5)
        self.screenshot("phone")
        self.screen(360, 3200, 1)
        time.sleep(0.3)
        self.screenshot("phone-whole")

    def test_dark_follows_the_system_and_can_be_chosen(self):
        back = lambda: self.js("return getComputedStyle(document.body).backgroundColor")
        self.media(prefers_color_scheme="dark")
        self.open()
        dark = back()
        self.media(prefers_color_scheme="light")
        light = back()
        self.assertNotEqual(dark, light)
        self.press("Auto", "header")
        self.press("Light", "header")
        self.assertEqual(back(), dark)
        self.driver.refresh()
        self.until(lambda: self.text("#connection") == "Live", "it is live")
        self.assertEqual(back(), dark, "it stays chosen")
        self.assertEqual(self.said(), [])
        self.press("Dark", "header")
        self.assertEqual(back(), light)

    def test_a_key_is_reset_by_keyboard_alone(self):
        self.use_up()
        self.driver.get(self.url)
        self.find("#token")
        self.until(lambda: self.js("return document.activeElement.id") == "token", "the token is asked for")
        self.keys(WRITE, Keys.ENTER)
        self.until(lambda: self.text("#connection") == "Live", "it is live")
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
        self.keys(Keys.ESCAPE)
        self.until(lambda: not self.js("return document.getElementById('dialog').open"), "escape closes it")
        self.assertFalse(self.check(tenant="acme")["allowed"])
        self.assertEqual(self.js("return document.activeElement.innerText"), "Reset …", "focus comes back")
        self.keys(Keys.ENTER)
        self.find("#dialog-yes")
        self.keys(Keys.ENTER)
        self.until(lambda: "5 of 5" in self.text(self.card("per-tenant")), "it is reset")
        self.assertTrue(self.check(tenant="acme")["allowed"])

    def keys(self, *keys):
        for key in keys:
            webdriver.ActionChains(self.driver).send_keys(key).perform()

    def tab_to(self, name):
        here = "const of = document.activeElement; return [of.id, of.innerText]"
        for _ in range(60):
            if name in self.js(here):
                return
            self.keys(Keys.TAB)
        self.fail(f"{name} cannot be reached")

    def test_everything_that_has_the_focus_has_a_name(self):
        self.use_up()
        self.open()
        self.until(lambda: "acme" in self.text("#refused"), "it is live")
        for view in ["#live", "#keys", "#keys/tenant=acme", "#policy", "#simulate", "#changes"]:
            self.driver.get(self.url + "/" + view)
            time.sleep(0.3)
            self.driver.execute_cdp_cmd("Accessibility.enable", {})
            nodes = self.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
            roles = [node["role"]["value"] for node in nodes if not node["ignored"]]
            self.assertTrue({"banner", "navigation", "main"} <= set(roles), roles)
            for node in nodes:
                of = {entry["name"]: entry["value"].get("value") for entry in node.get("properties", [])}
                if of.get("focusable") and not node["ignored"] and node["role"]["value"] not in ("RootWebArea", "main", "heading"):
                    self.assertTrue(node.get("name", {}).get("value"), (view, node))

    def test_who_wants_no_motion_gets_none(self):
        self.media(prefers_reduced_motion="reduce")
        self.use_up()
        self.open(view="#keys/tenant=acme")
        self.until(lambda: "0 of 5" in self.text(self.card("per-tenant")), "it is shown all the same")
        frames = "let n = 0; const old = window.requestAnimationFrame; window.requestAnimationFrame = (f) => { n += 1; return old(f); }; const done = arguments[0]; setTimeout(() => done(n), 500)"
        self.driver.set_script_timeout(5)
        self.assertLess(self.driver.execute_async_script(frames), 60, "pictures move once a second")

    def test_pictures_for_people(self):
        self.traffic(0.5)
        self.open()
        time.sleep(float(os.environ.get("PAGE_SECONDS", "3")))
        self.screen(1280, 1150)
        time.sleep(0.5)
        self.screenshot("desktop")
        self.media(prefers_color_scheme="dark")
        time.sleep(0.3)
        self.screenshot("dark")
        self.media()
        self.screen(1280, 900)
        self.admin("blocks", {"rule": "per-tenant", "key": {"tenant": "globex"}, "for_seconds": 900})
        self.driver.get(self.url + "/#keys/tenant=acme&user=3&ip=10.0.0.2&route=%2Fsearch")
        self.card("per-tenant")
        time.sleep(0.5)
        self.screenshot("key")
        self.press("Reset …")
        time.sleep(0.2)
        self.screenshot("reset")
        self.keys(Keys.ESCAPE)
        self.driver.get(self.url + "/#keys")
        self.find("#blocks a")
        self.screenshot("keys")


if __name__ == "__main__":
    unittest.main()
