"""What /metrics says, as Prometheus' own tool reads it."""

import subprocess
import unittest

from support import Folder, Tollgate, ask, program

POLICY = """
[[rule]]
name = "a rule of {many} names"
key = ["user"]
limit = "1/h"

[[rule]]
name = "in-shadow"
key = ["user"]
limit = "1/h"
shadow = true
"""


@unittest.skipUnless(program("promtool"), "promtool is not installed, see tests/e2e/setup.sh")
class Promtool(unittest.TestCase):
    def test_accepts_the_metrics_of_a_server_that_has_worked(self):
        folder = Folder()
        self.addCleanup(folder.remove)
        tollgate = Tollgate(folder.path, POLICY)
        self.addCleanup(tollgate.stop)
        for body in ['{"attributes": {"user": "1"}}'] * 3 + ["{", '{"attributes": {}}']:
            ask(tollgate.port, "/v1/check", "POST", body=body)
        metrics = ask(tollgate.port, "/metrics")
        self.assertEqual(metrics.status, 200)
        for outcome in ["allowed", "denied"]:
            self.assertIn(f'outcome="{outcome}"', metrics.body)
        checked = subprocess.run(
            [program("promtool"), "check", "metrics"],
            input=metrics.body,
            capture_output=True,
            text=True,
            timeout=20,
        )
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
