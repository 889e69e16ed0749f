#!/usr/bin/env python3
"""fleet_packaging.py TARND TARNCTL [TEST...] -- packaging/fleet: valid for Compose and Kubernetes, and what is in it works.

Names that one file gives and another takes are compared here.  Where check-jsonschema and kubernetes-validate are (modules of
Python, with the schemas in them) these judge the rest, and `kubectl kustomize` puts it together; without them that is said.  The
engine's script runs with redis-server, and nodes join with the rights that it gives.
"""
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import yaml
import tarnd
from fleet_world import Node, Versions, wait_for_proofs

sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # packaging.py there hides the module `packaging`

PROGRAM = CTL = None
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FLEET = os.path.join(ROOT, "packaging", "fleet")
SECRET = "/run/secrets/tarn"
RIGHTS = re.compile(r"resetkeys.*\+unwatch")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def have(module):
    if importlib.util.find_spec(module):
        return True
    print(f"fleet_packaging.py: {module} is not here: names and references alone are compared", flush=True)
    return False


def compose():
    return yaml.safe_load(read(FLEET, "compose.yaml"))


def resources():
    """All of the manifests, as `kubectl apply -k` sends them, or as the files have them."""
    if shutil.which("kubectl"):
        done = subprocess.run(["kubectl", "kustomize", FLEET], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return list(yaml.safe_load_all(done.stdout))
    found = []
    kustomization = yaml.safe_load(read(FLEET, "kustomization.yaml"))
    for name in kustomization["resources"]:
        found += yaml.safe_load_all(read(FLEET, name))
    for each in kustomization["configMapGenerator"]:
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": each["name"]},
                      "data": {name: read(FLEET, name) for name in each["files"]}})
    return found


class Checked(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tarn-packaging.")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def judge(self, environment, text=None):
        """tarnd -t of the configuration, in the environment that its container gets."""
        password = os.path.join(self.folder, "engine-password")
        with open(password, "w", encoding="utf-8") as f:
            f.write("secret\n")
        os.chmod(password, 0o440)
        path = os.path.join(self.folder, "tarn.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write((text or read(FLEET, "tarn.yaml")).replace(SECRET, self.folder))
        env = {k: v for k, v in os.environ.items() if not k.startswith("TARN_")}
        done = subprocess.run([PROGRAM, "-t", "-c", path], env={**env, **environment}, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Compose(Checked):
    def test_it_is_what_the_specification_allows(self):
        if not have("check_jsonschema") or not have("jsonschema"):
            return
        import jsonschema
        place = os.path.dirname(importlib.util.find_spec("check_jsonschema").origin)
        schema = json.loads(read(place, "builtin_schemas", "vendor", "compose-spec.json"))
        jsonschema.validators.validator_for(schema)(schema).validate(compose())
        wrong = compose()
        wrong["services"]["engine"]["volume"] = []
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.validators.validator_for(schema)(schema).validate(wrong)

    def test_what_is_used_is_there(self):
        world = compose()
        for name, service in world["services"].items():
            for kind in ("configs", "secrets"):
                for each in service.get(kind, []):
                    self.assertIn(each["source"], world[kind], name)
            for other in service.get("depends_on", []):
                self.assertIn(other, world["services"], name)
            for volume in service.get("volumes", []):
                self.assertIn(volume.split(":")[0], world["volumes"], name)
        for each in world["configs"].values():
            if "file" in each:
                self.assertTrue(os.path.exists(os.path.join(FLEET, each["file"])), each)

    def test_tarnd_takes_each_nodes_configuration(self):
        names = set()
        for name, service in compose()["services"].items():
            if name.startswith("tarn-"):
                environment = dict(service["environment"])
                host = environment["TARN_ORIGIN"].split(":")[0]
                self.assertIn(host, compose()["services"])
                names.add(environment["TARN_NODE"])
                self.judge({**environment, "TARN_ORIGIN": environment["TARN_ORIGIN"].replace(host, "127.0.0.1")})
        self.assertEqual(len(names), 3)


class Kubernetes(Checked):
    def setUp(self):
        super().setUp()
        self.all = resources()

    def of(self, kind):
        return [r for r in self.all if r["kind"] == kind]

    def named(self, kind):
        return {re.sub(r"-[0-9a-z]{10}$", "", r["metadata"]["name"]): r for r in self.of(kind)}

    def test_they_are_what_the_api_takes(self):
        if not have("kubernetes_validate"):
            return
        import kubernetes_validate
        version = kubernetes_validate.latest_version()
        for resource in self.all:
            kubernetes_validate.validate(resource, version, strict=True)
        wrong = json.loads(json.dumps(self.named("StatefulSet")["tarn"]))
        wrong["spec"]["replica"] = 3
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(wrong, version, strict=True)

    def test_what_is_used_is_there(self):
        secrets, configs = self.named("Secret"), self.named("ConfigMap")
        labels = []
        for name, each in self.named("StatefulSet").items():
            pod = each["spec"]["template"]
            labels.append(pod["metadata"]["labels"])
            self.assertIn(each["spec"]["serviceName"], self.named("Service"))
            self.assertLessEqual(each["spec"]["selector"]["matchLabels"].items(), labels[-1].items())
            volumes = {v["name"]: v for v in pod["spec"]["volumes"] + [
                {"name": c["metadata"]["name"]} for c in each["spec"].get("volumeClaimTemplates", [])]}
            for volume in volumes.values():
                if "configMap" in volume:
                    self.assertIn(re.sub(r"-[0-9a-z]{10}$", "", volume["configMap"]["name"]), configs)
                for item in volume.get("secret", {}).get("items", []):
                    self.assertIn(item["key"], secrets[volume["secret"]["secretName"]]["stringData"])
            for container in pod["spec"]["containers"]:
                ports = {p["name"] for p in container["ports"]}
                for mount in container["volumeMounts"]:
                    self.assertIn(mount["name"], volumes, name)
                for probe in ("readinessProbe", "livenessProbe"):
                    for how in container.get(probe, {}).values():
                        if isinstance(how, dict):
                            self.assertIn(how["port"], ports)
                for variable in container.get("env", []):
                    ref = variable.get("valueFrom", {}).get("secretKeyRef")
                    if ref:
                        self.assertIn(ref["key"], secrets[ref["name"]]["stringData"])
        for each in (*self.of("Service"), *self.of("PodDisruptionBudget"), *self.of("NetworkPolicy")):
            wanted = each["spec"].get("selector") or each["spec"].get("podSelector")
            wanted = {k: v for k, v in wanted.get("matchLabels", wanted).items() if not k.endswith("part-of")}
            self.assertTrue(any(wanted.items() <= have_.items() for have_ in labels), each)

    def environment(self):
        pod = self.named("StatefulSet")["tarn"]["spec"]["template"]["spec"]
        secret = self.named("Secret")["tarn"]["stringData"]
        env = {}
        for v in pod["containers"][0]["env"]:
            source = v.get("valueFrom", {})
            env[v["name"]] = v["value"] if "value" in v else secret[source["secretKeyRef"]["key"]] \
                if "secretKeyRef" in source else "tarn-0"
        return env

    def test_tarnd_takes_the_configuration_in_a_pods_environment(self):
        env = self.environment()
        self.assertEqual(env["TARN_ENGINE"].split(":")[0], self.named("Service")["tarn-engine"]["metadata"]["name"])
        self.judge({**env, "TARN_ORIGIN": "127.0.0.1:80"}, self.named("ConfigMap")["tarn-node"]["data"]["tarn.yaml"])

    def test_a_pod_is_ready_until_it_drains_by_its_own_hook(self):
        env = {**self.environment(), "TARN_ORIGIN": "127.0.0.1:80"}
        pod = self.named("StatefulSet")["tarn"]["spec"]["template"]["spec"]
        port = tarnd.free_port()
        config = (read(FLEET, "tarn.yaml").replace(SECRET, self.folder).replace("/run/tarn", self.folder)
                  .replace('listen:\n  - { address: "*:8080" }\n', "") + "workers: 1\n")
        with open(os.path.join(self.folder, "engine-password"), "w", encoding="utf-8") as f:
            f.write("secret\n")
        os.chmod(f.name, 0o440)
        env["TARN_ADMIN_LISTEN"] = env["TARN_ADMIN"] = f"127.0.0.1:{port}"
        t = tarnd.Tarnd(PROGRAM, config, environment=env)
        self.addCleanup(t.tidy)
        path = pod["containers"][0]["readinessProbe"]["httpGet"]["path"]
        get = ["curl", "-so", "/dev/null", "-w", "%{http_code}", f"http://127.0.0.1:{port}{path}"]
        self.assertEqual(subprocess.run(get, capture_output=True, text=True, check=True).stdout, "200")
        hook = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
        hook = [re.sub(r"sleep \d+", "true", word) for word in hook]
        subprocess.run(hook, env={**os.environ, **env, "PATH": os.path.dirname(CTL) + ":" + os.environ["PATH"]}, check=True,
                       timeout=tarnd.PATIENCE_S)
        self.assertEqual(t.process.wait(timeout=tarnd.PATIENCE_S), 0)


class Script(Checked):
    def test_the_guide_has_the_same_rights(self):
        self.assertEqual(RIGHTS.findall(read(FLEET, "engine.sh")),
                         [r.replace("'", "") for r in RIGHTS.findall(read(ROOT, "docs", "fleet.md"))])

    @unittest.skipIf(shutil.which("redis-server") is None, "redis-server is missing")
    def test_nodes_join_the_engine_of_the_script_and_need_no_other_right(self):
        password = os.path.join(self.folder, "engine-password")
        with open(password, "w", encoding="utf-8") as f:
            f.write("a long: 'secret'\n")
        os.chmod(password, 0o440)
        port = tarnd.free_port()
        script = subprocess.Popen(["sh", os.path.join(FLEET, "engine.sh"), "--port", str(port), "--bind", "127.0.0.1"],
                                  env={**os.environ, "TARN_PASSWORD_FILE": password, "TARN_DATA": self.folder},
                                  stdout=subprocess.DEVNULL)
        self.addCleanup(script.wait)
        self.addCleanup(script.kill)
        origin = Versions()
        self.addCleanup(origin.close)
        nodes = []
        for name in "ab":
            nodes.append(Node(PROGRAM, name, port, origin, engine=f"redis://tarn@127.0.0.1:{port}", max_blind="3s",
                              fleet=f", password_file: {password}"))
            self.addCleanup(nodes[-1].tidy)
        wait_for_proofs(nodes)
        self.assertEqual(nodes[0].purge(url="http://tarn.test/v/x")["proof"], "all")
        with open(f"/proc/{script.pid}/cmdline", encoding="utf-8") as f:
            self.assertNotIn("secret", f.read())
        self.assertTrue(os.listdir(os.path.join(self.folder, "appendonlydir")))
        for n in nodes:
            self.assertEqual(n.fleet()["why"], "")
            self.assertEqual(n.close(), 0)  # it gives up its name, which needs rights, too


def main():
    global PROGRAM, CTL
    if len(sys.argv) < 3:
        sys.exit("usage: fleet_packaging.py TARND TARNCTL [TEST...]")
    PROGRAM, CTL = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
