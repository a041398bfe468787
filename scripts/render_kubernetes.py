"""Writes `deploy/kubernetes/fedq.yaml`: the chart `deploy/helm/fedq` with its own values.

    python scripts/render_kubernetes.py            # write it
    python scripts/render_kubernetes.py --check    # only say whether it is what the chart gives

Helm's own engine renders it, from the package `helm-python-sdk` (`pip install '.[deploy]'`).
"""

import importlib
import re
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
CHART: Final = ROOT / "deploy" / "helm" / "fedq"
TARGET: Final = ROOT / "deploy" / "kubernetes" / "fedq.yaml"
HEAD: Final = "# The chart deploy/helm/fedq, rendered: python scripts/render_kubernetes.py\n"
#: Who applies files has no Helm.
MANAGED_BY: Final = re.compile(r"^ +app\.kubernetes\.io/managed-by: Helm\n", re.MULTILINE)


def render(values: dict[str, Any] | None = None) -> dict[str, str]:
    """What the chart gives for a release called `fedq`, by the path of each template."""
    helm = importlib.import_module("helm_python.chart")
    chart = helm.Chart.load(CHART)
    found: dict[str, str] = chart.render(values, name="fedq", namespace="fedq")
    return found


def manifests() -> str:
    """All objects in one file."""
    parts = [
        text.strip("\n")
        for path, text in sorted(render().items())
        if path.endswith(".yaml") and text.strip()
    ]
    return MANAGED_BY.sub("", HEAD + "---\n" + "\n---\n".join(parts) + "\n")


def main(arguments: list[str]) -> int:
    """The command; see the module."""
    text = manifests()
    if arguments == ["--check"]:
        if TARGET.read_text("utf-8") != text:
            sys.stderr.write(f"{TARGET} is not what the chart gives: run {sys.argv[0]}\n")
            return 1
        return 0
    TARGET.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
