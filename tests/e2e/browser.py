"""A real browser that shows the dashboard. Screenshots for people are written to target/screenshots."""

import http.client
import json
import os
import pathlib
import shutil
import threading
import unittest

from dashboard_server import DashboardServer
from support import PATIENCE, ROOT, ask, free_port, wait_until

try:
    from selenium import webdriver
    from selenium.common.exceptions import (
        ElementClickInterceptedException,
        ElementNotInteractableException,
        StaleElementReferenceException,
    )
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = Keys = None

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
# What a view shows once the server has answered.
CONTENT = {
    "live": "#refused > *",
    "keys": "#standing:not([hidden]) #overrides > *",
    "policy": "#policy li",
    "simulate": "#sim-rule option",
    "changes": "#changes > *",
}
ROWS = """
return [...document.querySelectorAll(`${arguments[0]} tbody tr`)].map((row) =>
  Object.fromEntries([...row.cells].map((cell) => [cell.dataset.label, cell.innerText])))
"""
FACTS = """
return Object.fromEntries([...document.querySelectorAll(`${arguments[0]} > div`)].map((fact) =>
  [fact.querySelector("dt").innerText, fact.querySelector("dd").innerText]))
"""
COUNT_CLOSED = """
window.closed_dialogs = 0;
document.getElementById("dialog").addEventListener("close", () => { window.closed_dialogs += 1; }, { once: true });
"""
TWO_FRAMES = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"


def start_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1280,900",
                     "--disable-background-networking", "--no-first-run", "--hide-scrollbars", "--lang=en-GB"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"), port=free_port())
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_script_timeout(PATIENCE)
    return driver


@unittest.skipUnless(webdriver and shutil.which("chromedriver"), "needs selenium and chromium-driver, see tests/e2e/setup.sh")
class BrowserTest(unittest.TestCase):
    """A test with a browser, which its class starts once, and a server of its own."""

    @classmethod
    def setUpClass(cls):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        cls.driver = start_browser()
        cls.addClassCleanup(cls.driver.quit)

    def setUp(self):
        self.serve()
        # The page of the test before would go on asking for its server.
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.media()
        self.screen(1280, 900)

    def serve(self, *arguments, policy=POLICY):
        """Starts the server that the test asks from here on."""
        tokens = f"rita read {READ}\nwalt write {WRITE}\n"
        self.server = DashboardServer(policy, "--admin-tokens", "tokens", "--audit", "audit.jsonl", *arguments, tokens=tokens)
        self.addCleanup(self.server.remove)
        self.audit = pathlib.Path(self.server.folder.path) / "audit.jsonl"
        self.url = self.server.url

    # What a person does.

    def open(self, token=WRITE, view=""):
        """Opens the page, and enters the token."""
        self.driver.get(self.url + "/" + view)
        self.find("#token").send_keys(token + Keys.ENTER)
        self.is_live()

    def visit(self, view):
        """Goes to a view, and waits until it shows what the server has answered."""
        self.driver.get(f"{self.url}/#{view}")
        name, _, key = view.partition("/")
        content = "#key article" if key else CONTENT[name]
        self.until(lambda: self.exists(f"#view-{name}:not([hidden]) {content}"), f"{view} is shown")
        self.settle()

    def click(self, selector):
        self.until(lambda: self.clicked(self.all(selector)), f"{selector} is clicked")

    def press(self, text, inside="main"):
        buttons = lambda: [button for button in self.all(f"{inside} button") if button.text == text]
        self.until(lambda: self.clicked(buttons()), f"the button {text!r} is pressed")

    def confirm(self):
        self.closes_dialog(lambda: self.click("#dialog-yes"))

    def closes_dialog(self, act):
        """Waits for the event, too, which comes later than the dialog goes: a dialog that is opened in
        between would take it for its own."""
        self.js(COUNT_CLOSED)
        act()
        self.until(lambda: self.js("return window.closed_dialogs") == 1, "the dialog closes")
        self.assertFalse(self.exists("#dialog[open]"))

    def look_up(self, text):
        self.driver.get(self.url + "/#keys")
        box = self.find("#find-text")
        box.clear()
        box.send_keys(text + Keys.ENTER)

    def keys(self, *keys):
        for key in keys:
            webdriver.ActionChains(self.driver).send_keys(key).perform()

    def screen(self, width, height, dense=1):
        metrics = {"width": width, "height": height, "deviceScaleFactor": dense, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def media(self, **features):
        named = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": named})

    # What a person sees.

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def exists(self, selector):
        return self.js("return document.querySelector(arguments[0]) !== null", selector)

    def find(self, selector):
        """The first element of a selector that is displayed."""
        seen = []

        def is_seen():
            seen[:] = [element for element in self.all(selector) if element.is_displayed()]
            return seen

        self.until(is_seen, f"{selector} is displayed")
        return seen[0]

    def card(self, rule):
        """The selector of a rule's card, once it is displayed."""
        selector = f"[data-rule={json.dumps(rule)}]"
        self.find(selector)
        return selector

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def rows(self, selector):
        """The rows of a table: the text of each cell by its heading."""
        return self.js(ROWS, selector)

    def facts(self, selector):
        """The entries of a list of names and values."""
        return self.js(FACTS, selector)

    def total(self, rule):
        """How many decisions of a rule the page has counted."""
        totals = [row["Total"] for row in self.rows("#rules") if row["Rule"].split("\n")[0] == rule]
        return int(totals[0].replace(",", "")) if totals else 0

    def screenshot(self, name):
        self.settle()
        self.driver.save_screenshot(str(SCREENSHOTS / f"{name}.png"))

    def complaints(self):
        """The warnings and errors in the browser's console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    # Waiting.

    def until(self, condition, what):
        def holds():
            try:
                return condition()
            except StaleElementReferenceException:
                # The page was drawn anew while we looked at it.
                return False

        wait_until(lambda: f"{what}: {self.shown()}", holds)

    def shown(self):
        """The text of the page, for the message of a failure."""
        focus = self.js("return document.activeElement?.outerHTML ?? ''")
        return f"{self.text('main')[:2000]}\ndialog: {self.text('dialog[open]')}\nfocus: {focus[:200]}"

    def is_live(self):
        self.until(lambda: self.exists("#connection.live") and self.text("#connection") == "Live", "the page is live")

    def settle(self):
        """Waits until everything is drawn: for two frames, and for the end of transitions."""
        self.driver.execute_async_script(TWO_FRAMES)
        self.until(lambda: self.js("return document.getAnimations().length === 0"), "no transition runs")

    @staticmethod
    def clicked(elements):
        """Whether one of the elements is displayed and could be clicked; what covers it may go."""
        for element in elements:
            if element.is_displayed():
                try:
                    element.click()
                    return True
                except (ElementClickInterceptedException, ElementNotInteractableException):
                    return False
        return False

    # What programs do.

    def check(self, cost=1, **attributes):
        answer = ask(self.server.port, "/v1/check", "POST", body=json.dumps({"attributes": attributes, "cost": cost}))
        return json.loads(answer.body)

    def admin(self, method, path, body):
        answer = ask(self.server.port, f"/admin/v1/{path}", method, {"authorization": f"Bearer {WRITE}"}, body)
        self.assertEqual(answer.status, 200, answer)

    def use_up(self, tenant="acme"):
        while self.check(tenant=tenant)["allowed"]:
            pass

    def traffic(self):
        """Sends requests of several clients until the test ends, or until the function that it returns is called."""
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

        def run_while_served():
            try:
                run()
            except (OSError, http.client.HTTPException):
                # The test has killed the server.
                pass

        thread = threading.Thread(target=run_while_served)
        thread.start()

        def end():
            stop.set()
            thread.join()

        self.addCleanup(end)
        return end
