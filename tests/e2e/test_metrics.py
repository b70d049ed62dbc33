"""What /metrics says, as Prometheus' own tool reads it."""

import subprocess
import unittest

from support import PATIENCE, Tollgate, ask, program

POLICY = """
[[rule]]
name = "a rule of {many} names"
key = ["user"]
limit = "1/h"
tiers = { "a {tier}" = "5/h" }

[[rule]]
name = "in-shadow"
key = []
limit = "1/h"
shadow = true
"""


@unittest.skipUnless(program("promtool"), "promtool is not installed, see tests/e2e/setup.sh")
class Promtool(unittest.TestCase):
    def test_accepts_the_metrics_of_a_server_that_has_worked(self):
        text = self.metrics()
        for outcome in ["allowed", "denied", "shadow_denied"]:
            self.assertIn(f'outcome="{outcome}"', text)
        self.assertIn('tier="a {tier}",outcome="allowed"', text)
        self.is_accepted(text)

    def test_accepts_the_metrics_of_a_server_whose_store_is_away(self):
        text = self.metrics("--store", "redis://127.0.0.1:1")
        self.assertIn("\ntollgate_store_up 0\n", text)
        self.is_accepted(text)

    def metrics(self, *arguments):
        tollgate = self.enterContext(Tollgate(*arguments, policy=POLICY))
        paid = '{"attributes": {"user": "2", "tier": "a {tier}"}}'
        for body in ['{"attributes": {"user": "1"}}'] * 3 + ["{", '{"attributes": {}}', paid]:
            ask(tollgate.http, "/v1/check", "POST", body=body)
        answer = ask(tollgate.http, "/metrics")
        self.assertEqual(answer.status, 200)
        return answer.body

    def is_accepted(self, text):
        checked = subprocess.run(
            [program("promtool"), "check", "metrics"],
            input=text,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
