"""Every command that a page shows in a block, and where it is run: a page that shows another command fails the test of this table."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
_FOLDERS: Final = ("docs", "docs/guides", "docs/runbooks")
PAGES: Final = (
    *("README.md", "CONTRIBUTING.md", "images/README.md", "charts/gpujob-operator/README.md"),
    *(str(path.relative_to(ROOT)) for folder in _FOLDERS for path in sorted((ROOT / folder).glob("*.md"))),
)
PROGRAMS: Final = ("kubectl ", "helm ", "docker ", "make ", "gpujob ", "python ", "pip ", "kind ", "KUBECONFIG=")
_BLOCK: Final = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_SHELLS: Final = ("", "sh", "console", "bash")

CLUSTER: Final = "tests/e2e/test_commands_of_the_pages.py"
"""Run on a real API server with an operator and simulated nodes."""
CHART: Final = "tests/contract/test_chart_comes_and_goes.py"
"""Run in a cluster of its own, since they install, upgrade or remove the chart."""
HOUSE: Final = "tests/contract/test_the_house.py"
SECOND: Final = "tests/e2e/test_two_releases.py"
PINNED: Final = "tests/contract/test_pinned_images.py"

WHERE: Final[dict[str, str]] = {
    "kubectl gpujob plan -f examples/01-hello-gpu.yaml --cluster examples/clusters/mixed.yaml": HOUSE,
    "helm install gpujob-operator charts/gpujob-operator --namespace gpujob-system --create-namespace "
    "--set image.repository=YOUR-REGISTRY/gpujob-operator": CHART,
    "kubectl apply -f examples/01-hello-gpu.yaml": CLUSTER,
    "kubectl describe gpujob hello-gpu": CLUSTER,
    "helm upgrade gpujob-operator charts/gpujob-operator --namespace gpujob-system --reset-then-reuse-values": CHART,
    "helm upgrade gpujob-operator charts/gpujob-operator --namespace gpujob-system --reset-then-reuse-values "
    "--set monitoring.serviceMonitor.labels.release=kube-prometheus-stack "
    "--set monitoring.podMonitor.labels.release=kube-prometheus-stack "
    "--set monitoring.prometheusRule.labels.release=kube-prometheus-stack "
    "--set monitoring.dashboards.enabled=true --set monitoring.dashboards.namespace=monitoring": CHART,
    "kubectl delete crd gpujobs.gpujob.dev gpujobprofiles.gpujob.dev gpupools.gpujob.dev gpuruntimes.gpujob.dev": CHART,
    "kubectl create token gpujob-operator --namespace gpujob-system": CHART,
    "helm install second-gpujob-operator charts/gpujob-operator --namespace gpujob-second --create-namespace "
    "--set image.repository=YOUR-REGISTRY/gpujob-operator --set watchNamespaces={team-b} --set crds.enabled=false "
    "--set userRoles.create=false --set admission.requirePodsCreate=false --set admission.protectChildren=false "
    "--set admission.limitServiceAccounts=false": SECOND,
    "kubectl gpujob catalog pin --image-mirror docker.io=registry.example.com/hub > runtimes.yaml": PINNED,
    "kubectl get gpujob NAME -o "
    'jsonpath={range .status.attempts[*]}{.attempt} {.pool} {.from} {.to} {.reason}{"\\n"}{end}': CLUSTER,
    "kubectl annotate namespace TEAM gpujob.dev/monthly-budget=5000.00": CLUSTER,
    "kubectl gpujob cost --by namespace,profile,pool --since 30d -o csv": CLUSTER,
    'kubectl get gpujob llama -o jsonpath={.status.conditions[?(@.type=="PreflightPassed")]}': CLUSTER,
    "kubectl gpujob render -f job.yaml": CLUSTER,
    "kubectl get gpujobs,gpujobprofiles -A -o yaml > jobs.yaml": CLUSTER,
    "kubectl get gpupools,gpuruntimes -o yaml > cluster.yaml": CLUSTER,
    "kubectl -n gpujob-system get configmap gpujob-spending --ignore-not-found -o yaml > spending.yaml": CLUSTER,
    "kubectl create configmap my-code --from-file=train.py": CLUSTER,
    "kubectl gpujob top": CLUSTER,
    "kubectl gpujob doctor --before-uninstall": CLUSTER,
    "kubectl gpujob explain first": CLUSTER,
    "kubectl gpujob capture > cluster.yaml": CLUSTER,
    "kubectl gpujob plan -f job.yaml --cluster cluster.yaml -o wide": CLUSTER,
}
"""Commands as `commands_of` gives them, with the test that runs them."""

_NO_DOCKER: Final = "no Docker is here"
NOT_RUN: Final[dict[str, str]] = {
    "docker build -f images/operator/Dockerfile -t gpujob-operator:dev .": _NO_DOCKER,
    "kind create cluster": _NO_DOCKER,
    "kind load docker-image gpujob-operator:dev": _NO_DOCKER,
    "helm install gpujob-operator charts/gpujob-operator --namespace gpujob-system --create-namespace "
    "--set image.repository=gpujob-operator --set image.tag=dev --set image.pullPolicy=Never --wait": "it waits for an image that "
    "kind has; tests/e2e/node/test_the_installed_operator.py installs with such values",
    "make demo": "it is a program with tests of its own, and starts a cluster of its own",
    'kubectl -n TEAM patch gpujob NAME --type merge -p {"spec":{"suspend":true}}': "jobs are suspended so by the API in "
    "tests/e2e/test_suspended_jobs_hold_nothing.py",
    "make test": "it runs these tests",
    "docker build -f images/operator/Dockerfile -t YOUR-REGISTRY/gpujob-operator:0.1.0 .": "no Docker is here: buildah builds the same "
    "file in tests/e2e/node/test_the_operators_image.py",
    "docker push YOUR-REGISTRY/gpujob-operator:0.1.0": "no Docker is here, and nobody's registry may be written",
    "docker create --name gpujob-operator YOUR-REGISTRY/gpujob-operator:0.1.0": "no Docker is here: the bill of materials is read in "
    "tests/e2e/node/test_the_operators_image.py",
    "docker cp gpujob-operator:/usr/share/sbom/gpujob-operator.cdx.json .": "no Docker is here, see above",
    "KUBECONFIG=THAT-FILE .venv/bin/python -m gpujob.cluster": "tests of the operator start it so (tests/e2e/operator_process.py)",
    "kubectl gpujob logs NAME --attempt 1": "simulated pods print nothing: tests/unit/cli/test_cli_logs_and_wait.py",
    "kubectl logs JOB-POD -c preflight": "simulated pods print nothing: tests/e2e/node/test_a_preflight_in_a_real_pod.py reads it",
    "kubectl apply -f runtimes.yaml": "the file comes of the line above, which another test runs",
    "kubectl get gj first -w": "it goes on until Ctrl-C",
    "kubectl gpujob logs first -f": "simulated pods print nothing: tests/unit/cli/test_cli_logs_and_wait.py",
}
"""Commands that no test runs, with the reason."""


def commands_of(page: str) -> dict[str, str]:
    """The commands of a page's blocks as they are written, without comments, prompts and what a console prints.

    By the command's words with one blank between them, as the tables have it; lines that go on are joined.
    """
    found: dict[str, str] = {}
    blocks = _BLOCK.findall((ROOT / page).read_text())
    for block in (text for language, text in blocks if language in _SHELLS):
        lines = re.sub(r"\\\n\s*", " ", block).splitlines()
        prompted = [line[2:] for line in lines if line.startswith("$ ")]
        written = [line for line in prompted or map(str.strip, lines) if line.startswith(PROGRAMS)]
        found |= {" ".join(shlex.split(line, comments=True)): re.sub(r"\s+# .*", "", line) for line in written}
    return found


def run_in(test: str) -> list[str]:
    """The commands that a test runs, as they are written, in the table's order."""
    written = {words: command for page in PAGES for words, command in commands_of(page).items()}
    return [written[words] for words, where in WHERE.items() if where == test]
