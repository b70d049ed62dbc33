"""The files of deploy/: what they say of Tollgate is understood by it."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import yaml

from support import PATIENCE, ROOT, Folder, Tollgate, program, recipe, tollgate_binary, wait_until

DEPLOY = ROOT / "deploy"
SECRET = "s3cret"


def documents(name):
    return [document for document in yaml.safe_load_all((DEPLOY / name).read_text()) if document]


def tollgate(arguments, variables=None):
    env = {name: value for name, value in os.environ.items() if not name.startswith("TOLLGATE")}
    command = [tollgate_binary(), *arguments]
    return subprocess.run(
        command, env={**env, **(variables or {})}, capture_output=True, text=True, timeout=PATIENCE
    )


def probe_of_a_ready_server(arguments, variables):
    """The output of a probe that succeeds."""
    probe = tollgate(arguments, variables)
    return probe.stdout if probe.returncode == 0 else None


class Deployed(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.remove)

    def in_force(self, arguments, variables):
        """What --print-config says, of the files in the folder instead of /etc/tollgate."""
        here = lambda text: text.replace("/etc/tollgate", self.folder.path)
        said = tollgate([here(it) for it in arguments] + ["--print-config"], variables)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual(said.stderr, "", "no warnings")
        self.assertNotIn(SECRET, said.stdout)
        return said.stdout

    def is_valid(self, name):
        said = tollgate(["validate", "--strict", str(pathlib.Path(self.folder.path) / name)])
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)

    def test_the_compose_file_starts_tollgate_with_settings_that_it_knows(self):
        (compose,) = documents("docker/compose.yaml")
        service = compose["services"]["tollgate"]
        mounted = [it for it in service["volumes"] if it.endswith(":/etc/tollgate:ro")]
        source = DEPLOY / "docker" / mounted[0].split(":")[0]
        shutil.copytree(source, self.folder.path, dirs_exist_ok=True)
        self.is_valid("tollgate.toml")
        said = self.in_force(service["command"], service["environment"])
        self.assertRegex(said, r'store = "redis://redis:6379/0" +# TOLLGATE_STORE')
        self.assertRegex(said, r'grpc = "0.0.0.0:8081" ')
        dockerfile = DEPLOY.parent / service["build"]["dockerfile"]
        self.assertTrue(dockerfile.is_file())
        envoy = compose["services"]["envoy"]["volumes"][0].split(":")[0]
        self.assertTrue((DEPLOY / "docker" / envoy).resolve().is_file())

    def test_the_image_is_told_settings_that_tollgate_knows(self):
        text = (DEPLOY / "docker/Dockerfile").read_text()
        variables = dict(re.findall(r"(TOLLGATE_\w+)=(\S+)", text))
        ports = [value.split(":")[1] for value in variables.values() if ":" in value]
        self.assertEqual(re.search(r"^EXPOSE (.*)$", text, re.M)[1].split(), ports)
        said = self.in_force(["serve"], variables)
        for name, value in variables.items():
            self.assertRegex(said, rf'"{re.escape(value)}" +# {name}\n')
        # There is no shell in it.
        (probe,) = re.findall(r"^HEALTHCHECK .*CMD (\[.*\])$", text, re.M)
        entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", text, re.M)[1])
        self.assertEqual(json.loads(probe), [*entry, "health"])
        # A number: Kubernetes does not know that a name is not root's.
        self.assertRegex(text, r"\nUSER [1-9]\d*:[1-9]\d*\n")

    def test_no_image_floats(self):
        dockerfile = (DEPLOY / "docker/Dockerfile").read_text()
        images = re.findall(r"^FROM (\S+)", dockerfile, re.M)
        (compose,) = documents("docker/compose.yaml")
        images += [it["image"] for it in compose["services"].values() if "image" in it]
        for document in documents("kubernetes/tollgate.yaml"):
            pod = document.get("spec", {}).get("template", {}).get("spec", {})
            images += [it["image"] for it in pod.get("containers", [])]
        self.assertEqual(len(images), 6, images)
        for image in images:
            # With a version of three parts, or with nothing in it.
            self.assertRegex(image, r"^scratch$|:v?\d+\.\d+\.\d+(-|$)")

    def test_the_dockerfile_is_as_the_linter_wants_it(self):
        hadolint = program("hadolint")
        if not hadolint:
            self.skipTest("hadolint is not installed")
        command = [hadolint, str(DEPLOY / "docker/Dockerfile")]
        said = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)

    def test_the_probe_of_the_image_asks_the_server_of_its_variables(self):
        (compose,) = documents("docker/compose.yaml")
        test = compose["services"]["tollgate"]["healthcheck"]["test"]
        self.assertEqual(test[:2], ["CMD", "/usr/local/bin/tollgate"])
        with Tollgate() as server:
            # As in the image: on every address.
            up = {"TOLLGATE_HTTP": f"0.0.0.0:{server.http}"}
            # Docker repeats a probe that takes too long.
            said = wait_until("the probe succeeds", lambda: probe_of_a_ready_server(test[2:], up))
            self.assertEqual(said, "ready\n")
        self.assertEqual(tollgate(test[2:], up).returncode, 1)

    def test_the_manifests_start_tollgate_with_settings_that_it_knows(self):
        by_kind = {it["kind"]: it for it in documents("kubernetes/tollgate.yaml")}
        self.assertEqual(
            set(by_kind),
            {"ConfigMap", "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"},
        )
        for name, text in by_kind["ConfigMap"]["data"].items():
            self.folder.write(name, text)
            self.is_valid(name)
        pod = by_kind["Deployment"]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        variables = {
            it["name"]: it.get("value", f"redis://:{SECRET}@redis:6379/0") for it in container["env"]
        }
        said = self.in_force(container["args"], variables)
        self.assertIn("redis://:***@redis:6379/0", said)
        self.assertRegex(said, rf'nodes = {by_kind["Deployment"]["spec"]["replicas"]} ')
        ports = {it["name"]: it["containerPort"] for it in container["ports"]}
        for name, port in ports.items():
            self.assertRegex(said, rf'{name} = "0.0.0.0:{port}" ')
        served = {it["targetPort"] for it in by_kind["Service"]["spec"]["ports"]}
        self.assertEqual(served, set(ports) - {"health"}, "only the probes ask for health")
        probes = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
        self.assertEqual({name: container[name]["httpGet"]["path"] for name in probes}, probes)
        asked = {container[name]["httpGet"]["port"] for name in probes}
        self.assertEqual(asked, {"health"}, "the port that never speaks TLS")
        labels = by_kind["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
        for kind in ["Deployment", "PodDisruptionBudget"]:
            chosen = by_kind[kind]["spec"]["selector"]["matchLabels"].items()
            self.assertLessEqual(chosen, labels)
        self.assertLessEqual(by_kind["Service"]["spec"]["selector"].items(), labels)
        # What the annotations promise must get through to where it is scraped.
        scraped = by_kind["Deployment"]["spec"]["template"]["metadata"]["annotations"]
        self.assertEqual(scraped["prometheus.io/port"], str(ports["http"]))
        clients, prometheus = by_kind["NetworkPolicy"]["spec"]["ingress"]
        self.assertEqual(clients["from"][0]["namespaceSelector"], {}, "proxies of any namespace")
        self.assertIn("namespaceSelector", prometheus["from"][0])
        self.assertEqual([it["port"] for it in prometheus["ports"]], ["http"])
        self.assertNotIn("subPath", str(container["volumeMounts"]), "it would never change")

    def test_the_unit_starts_tollgate_with_settings_that_it_knows(self):
        unit = (DEPLOY / "systemd/tollgate.service").read_text()
        shutil.copy(DEPLOY / "systemd/tollgate.toml", self.folder.path)
        self.is_valid("tollgate.toml")
        (serve,) = re.findall(r"^ExecStart=\S+ (serve .*)$", unit, re.M)
        self.in_force(serve.split(), {})
        shown = dict(re.findall(r"^#Environment=(\w+)=%d(/\S+)$", unit, re.M))
        self.assertIn("TOLLGATE_ADMIN_TOKENS", shown)
        shown["TOLLGATE_TLS_CERT"] = "/cert.pem"
        said = self.in_force(serve.split(), shown)
        for name in shown:
            self.assertIn(f"# {name}\n", said)
        self.assertRegex(unit, r"\nExecReload=/bin/kill -HUP \$MAINPID\n")

    @unittest.skipUnless(program("systemd-analyze"), "systemd-analyze is not installed")
    def test_systemd_accepts_the_unit(self):
        unit = (DEPLOY / "systemd/tollgate.service").read_text()
        # With the credentials, too, that are shown as comments.
        self.assertIn("#LoadCredential=", unit)
        unit = re.sub(r"^#(LoadCredential|Environment)=", r"\1=", unit, flags=re.M)
        local = unit.replace("/usr/local/bin/tollgate", tollgate_binary())
        path = self.folder.write("tollgate.service", local)
        verify = ["systemd-analyze", "verify", "--man=no", path]
        said = subprocess.run(verify, capture_output=True, text=True, timeout=PATIENCE)
        ours = [line for line in said.stderr.splitlines() if "tollgate" in line]
        self.assertEqual((said.returncode, ours), (0, []), said.stderr)
        exposure = ["systemd-analyze", "security", "--offline=true", "--threshold=20", path]
        said = subprocess.run(exposure, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(said.returncode, 0, said.stdout[-400:] + said.stderr)

    def test_envoy_is_told_in_yaml(self):
        (envoy,) = documents("envoy/envoy.yaml")
        clusters = {it["name"] for it in envoy["static_resources"]["clusters"]}
        self.assertEqual(clusters, {"tollgate", "service"})
        binary = os.environ.get("ENVOY") or program("envoy")
        self.assertTrue(binary, "envoy is not installed, see tests/e2e/setup.sh")
        validate = [binary, "--mode", "validate", "-c", str(DEPLOY / "envoy/envoy.yaml")]
        said = subprocess.run(validate, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(said.returncode, 0, said.stderr[-800:])

    def test_the_policy_of_the_recipes_is_right(self):
        for name in ["policy", "policy-per-key"]:
            self.folder.write("limits.toml", recipe(name))
            self.is_valid("limits.toml")


if __name__ == "__main__":
    unittest.main()
