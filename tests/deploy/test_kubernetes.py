"""The Helm chart, by Helm's own engine; and the manifests, which are the chart rendered."""

import importlib
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from fedq.core.ids import NodeId
from fedq.shell.config import file as config_file
from fedq.shell.config.certificates import make_authority, make_node_certificate
from fedq.shell.config.values import NodeConfig
from tests.deploy.tools import DEPLOY, documents, module, said, tool
from tests.tidy.sources import ROOT

CHART = DEPLOY / "helm" / "fedq"
MANIFESTS = DEPLOY / "kubernetes"
#: The oldest that the chart says it is for, and the newest that the validator knows by itself.
RELEASES = ("1.27", "1.37")
VALUES: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "one node": {"founders": 1, "nodes": 1, "antiAffinity": "preferred", "http": False},
    "five nodes with all": {
        "founders": 5,
        "nodes": 5,
        "clientTlsSecret": "tls",
        "users": ["admin", "orders"],
        "limits": {"connections": 5000},
        "timing": {"lease_ms": 1400, "heartbeat_ms": 200, "suspect_ms": 3600},
        "storage": {"className": "fast", "size": "100Gi"},
        "zoneField": "metadata.labels['topology.kubernetes.io/zone']",
        "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "brokers", "operator": "Exists"}],
        "priorityClassName": "high",
    },
}
VALUES["two that join"] = {"nodes": 5}
VALUES["one that was alone"] = {"founders": 1, "nodes": 3}
#: What is put into the node's place for each path that a pod has mounted.
MOUNTED = "/etc/fedq"


@pytest.fixture(scope="module", autouse=True)
def _helm_is_loaded() -> None:
    """Its first use opens descriptors that the process keeps; no test is to blame for them."""
    if importlib.util.find_spec("helm_python") is not None:
        chart = importlib.import_module("helm_python.chart")
        chart.lint(CHART, {}, namespace="fedq")
        chart.Chart.load(CHART).validate_schema({})


def renderer() -> ModuleType:
    """`scripts/render_kubernetes.py`."""
    spec = importlib.util.spec_from_file_location(
        "render_kubernetes", ROOT / "scripts" / "render_kubernetes.py"
    )
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def rendered(values: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects that the chart makes of these values."""
    module("helm_python.chart", "helm-python-sdk")
    texts = renderer().render(values)
    return [
        each for path, text in texts.items() if path.endswith(".yaml") for each in documents(text)
    ]


def written() -> list[dict[str, Any]]:
    """The objects in `deploy/kubernetes`."""
    return documents((MANIFESTS / "fedq.yaml").read_text("utf-8"))


def one(objects: list[dict[str, Any]], kind: str, name: str = "fedq") -> dict[str, Any]:
    """The object of a kind."""
    (found,) = [
        each for each in objects if each["kind"] == kind and each["metadata"]["name"] == name
    ]
    return found


def pod(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """What a pod is made of."""
    spec: dict[str, Any] = one(objects, "StatefulSet")["spec"]["template"]["spec"]
    return spec


def pod_template(objects: list[dict[str, Any]]) -> Any:
    """What a change of restarts pods."""
    return one(objects, "StatefulSet")["spec"]["template"]


def configured(
    objects: list[dict[str, Any]], name: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> NodeConfig:
    """The configuration that the pod's node reads, with what is mounted there in `place`."""
    (container,) = pod(objects)["containers"]
    known = {
        "metadata.name": name, "metadata.namespace": "shop", "spec.nodeName": "machine-1",
        "metadata.labels['topology.kubernetes.io/zone']": "north",
    }  # fmt: skip
    for each in container["env"]:
        value = each.get("value") or known[each["valueFrom"]["fieldRef"]["fieldPath"]]
        monkeypatch.setenv(each["name"], value)
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "configuration"]
    assert mount["mountPath"] == f"{MOUNTED}/node.yaml"
    file = mount["subPathExpr"].replace("$(FEDQ_NODE_NAME)", name)
    text = one(objects, "ConfigMap")["data"][file].replace(MOUNTED, str(place))
    own = place / "node.yaml"
    own.write_text(text, "utf-8")
    return config_file.load(own)


def mounts(place: Path, users: list[str]) -> None:
    """What the Secrets hold."""
    (place / "certificates").mkdir(parents=True)
    make_authority(place / "certificates")
    for number in range(5):
        make_node_certificate(place / "certificates", NodeId(f"fedq-{number}"), ["localhost"])
    (place / "client-tls").mkdir()
    for here, there in (("fedq-0.pem", "tls.crt"), ("fedq-0.key", "tls.key")):
        (place / "client-tls" / there).write_bytes((place / "certificates" / here).read_bytes())
    (place / "users").mkdir()
    for user in users:
        (place / "users" / user).write_text("a long password\n")


def test_helm_has_nothing_to_say_of_the_chart() -> None:
    chart = module("helm_python.chart", "helm-python-sdk")
    for values in VALUES.values():
        found = chart.lint(CHART, values, strict=True, namespace="fedq")
        assert found["errors"] == []
        # Of a picture that the chart has not.
        assert [each for each in found["messages"] if "icon" not in each["error"]] == []


@pytest.mark.parametrize(
    "values",
    [
        {"founders": 2},
        {"founders": 4},
        {"nodes": 0},
        {"nodes": 65},
        {"replicas": 3},
        {"users": []},
        {"users": ["no: name"]},
        {"storage": {"size": "much"}},
        {"antiAffinity": "maybe"},
        {"terminationGracePeriodSeconds": 5},
    ],
)
def test_values_that_cannot_work_are_refused(values: dict[str, Any]) -> None:
    chart = module("helm_python.chart", "helm-python-sdk").Chart.load(CHART)
    with pytest.raises(Exception, match=next(iter(values))):
        chart.validate_schema(values)


def test_fewer_nodes_than_founders_are_refused() -> None:
    with pytest.raises(Exception, match="nodes is 1, less than the 3 founders"):
        rendered({"nodes": 1})


def test_more_nodes_change_nothing_for_those_that_run() -> None:
    few, more = (pod_template(rendered({"nodes": nodes})) for nodes in (3, 5))
    assert few == more, "else all would be restarted"
    assert few != pod_template(rendered({"limits": {"connections": 5}}))


def test_the_manifests_are_what_the_chart_gives() -> None:
    module("helm_python.chart", "helm-python-sdk")
    text = (MANIFESTS / "fedq.yaml").read_text("utf-8")
    assert renderer().manifests() == text, "run: python scripts/render_kubernetes.py"


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("title", VALUES)
def test_kubernetes_knows_every_field(title: str, release: str) -> None:
    check = module("kubernetes_validate", "kubernetes-validate")
    for each in rendered(VALUES[title]):
        if each["kind"] != "PodMonitor":
            check.validate(each, release, strict=True)


def test_the_manifests_go_into_a_namespace_of_their_own(tmp_path: Path) -> None:
    code, text = said(tool("kubectl", "Kubernetes' own"), "kustomize", MANIFESTS)
    assert code == 0, text
    objects = documents(text)
    assert {each["metadata"].get("namespace", "fedq") for each in objects} == {"fedq"}
    (space,) = [each for each in objects if each["kind"] == "Namespace"]
    assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert len(objects) == len(written()) + 1


@pytest.mark.parametrize("title", [None, *VALUES])
def test_every_pod_has_a_configuration_that_is_right(
    title: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = VALUES[title or "as it comes"]
    objects = written() if title is None else rendered(values)
    mounts(tmp_path, values.get("users", ["admin"]))
    number = one(objects, "StatefulSet")["spec"]["replicas"]
    names = [f"fedq-{each}" for each in range(number)]
    (container,) = pod(objects)["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    for name in names:
        config = configured(objects, name, tmp_path, monkeypatch)
        assert config.node == name
        founders = names[: values.get("founders", 3)]
        addresses = [f"{each}.fedq-peers:{ports['peer']}" for each in founders]
        if name in founders:
            assert list(config.peers.items()) == list(zip(founders, addresses, strict=True))
        else:
            assert list(config.join) == addresses
        assert config.peer_address == f"{name}.fedq-peers:{ports['peer']}"
        assert config.metrics is not None
        assert config.metrics.port == ports["metrics"]
        assert (config.http.port if config.http else None) == ports.get("http")
        amqp = "amqps" if values.get("clientTlsSecret") else "amqp"
        assert config.amqp[0].port == ports[amqp]
        assert (config.amqp[0].tls is not None) == (amqp == "amqps")
        assert config.amqp_address == f"{name}.fedq-peers.shop.svc:{ports[amqp]}"
        assert config.zone == ("north" if "zoneField" in values else "machine-1")
        assert all(config.users.values())
        # What a command in the pod needs to find the token.
        paths = {each["name"]: each.get("value") for each in container["env"]}
        assert str(config.data) == paths["FEDQ_DATA"]
        assert Path(str(config.data)).parent == Path(container["volumeMounts"][0]["mountPath"])
        grace_ms = pod(objects)["terminationGracePeriodSeconds"] * 1_000
        pause_ms = int(container["lifecycle"]["preStop"]["exec"]["command"][1]) * 1_000
        assert grace_ms > 2 * (pause_ms + config.timing.stop_wait_ms)
        live = container["livenessProbe"]
        assert live["periodSeconds"] * live["failureThreshold"] * 1_000 > config.timing.loop_hang_ms


def test_nodes_find_each_other_before_they_are_ready_and_clients_only_after() -> None:
    objects = written()
    peers, clients = one(objects, "Service", "fedq-peers"), one(objects, "Service")
    assert peers["spec"]["publishNotReadyAddresses"] is True
    assert peers["spec"]["clusterIP"] == "None"
    assert "publishNotReadyAddresses" not in clients["spec"]
    stateful = one(objects, "StatefulSet")["spec"]
    assert stateful["serviceName"] == "fedq-peers"
    # One after the other, the first would wait for itself to be ready.
    assert stateful["podManagementPolicy"] == "Parallel"
    labels = stateful["template"]["metadata"]["labels"]
    for each in (peers, clients):
        assert each["spec"]["selector"].items() <= labels.items()
    budget = one(objects, "PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= labels.items()


def test_probes_ask_what_they_mean_and_liveness_is_not_about_a_majority() -> None:
    (container,) = pod(written())["containers"]
    asked = {
        name: container[name]["httpGet"]["path"]
        for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert asked == {
        "startupProbe": "/live", "livenessProbe": "/live", "readinessProbe": "/ready",
    }  # fmt: skip


def test_pods_have_no_rights_and_no_secret_stands_in_a_manifest() -> None:
    objects = written()
    spec = pod(objects)
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not [each for each in objects if each["kind"] == "Secret"]
    recipe = (DEPLOY / "container" / "Containerfile").read_text("utf-8")
    assert f"USER {spec['securityContext']['runAsUser']}:" in recipe


def test_every_open_port_is_let_in_for_somebody() -> None:
    objects = written()
    (container,) = pod(objects)["containers"]
    policy = one(objects, "NetworkPolicy")["spec"]
    let_in = {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
    assert let_in == {port["name"] for port in container["ports"]}
    assert all(rule["from"] for rule in policy["ingress"])


def test_every_value_of_the_chart_is_used_and_checked() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    texts = "".join(path.read_text("utf-8") for path in (CHART / "templates").iterdir())
    used = set(re.findall(r"\.Values\.(\w+)", texts))
    assert used == set(values)
    schema = yaml.safe_load((CHART / "values.schema.json").read_text("utf-8"))
    assert set(schema["properties"]) - {"global"} == set(values)
