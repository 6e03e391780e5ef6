"""Metrics behind tokens, with the rights of the chart: the API server says who may read them, also at a replica that does not lead."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from tests.e2e.api_server import ApiServer
from tests.e2e.chart import set_values
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.conftest import Operators
from tests.e2e.operator_process import NAMESPACE, OperatorProcess
from tests.ports import free_port

pytestmark = pytest.mark.e2e

Scraped = tuple[int, Path]


@pytest.fixture
def scraped(cluster: Cluster, operator: OperatorProcess, operators: Operators, tmp_path: Path) -> Iterator[Scraped]:
    """The port and the certificate of an operator that does not lead and serves its metrics to who has a token."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=operator", "-days", "2",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "tls.key", "-out", "tls.crt"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    set_values(cluster, metrics={"port": 9464, "tlsSecret": "metrics-tls", "authentication": {"enabled": True}})
    port = free_port()
    process = operators("scraped")
    process.settings |= {
        "GPUJOB_METRICS_PORT": str(port), "GPUJOB_METRICS_AUTHENTICATION": "true", "GPUJOB_METRICS_TLS": str(tmp_path),
    }  # fmt: skip
    process.start()
    try:
        eventually(lambda: ask((port, tmp_path), "")[0] == 401, 30, what="metrics")
        yield port, tmp_path
    finally:
        process.stop()
        set_values(cluster, metrics={"port": 9464, "tlsSecret": "", "authentication": {"enabled": False}})


def ask(scraped: Scraped, token: str) -> tuple[int, str]:
    """Code and text of a scrape; 0 without an answer."""
    port, folder = scraped
    request = Request(
        f"https://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {token}"} if token else {}
    )
    try:
        with urlopen(request, context=ssl.create_default_context(cafile=str(folder / "tls.crt")), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
    except URLError:
        return 0, ""


def token_of(api: ApiServer, account: str) -> str:
    assert api.kubectl("create", "serviceaccount", account, f"-n{NAMESPACE}").returncode == 0
    return api.kubectl("create", "token", account, f"-n{NAMESPACE}").stdout.strip()


def test_an_account_reads_them_that_the_role_is_bound_to(scraped: Scraped, api: ApiServer) -> None:
    try:
        bind = ("create", "clusterrolebinding", "scraper", "--clusterrole=gpujob-metrics-reader")
        assert api.kubectl(*bind, f"--serviceaccount={NAMESPACE}:scraper").returncode == 0
        token = token_of(api, "scraper")
        status, text = ask(scraped, token)
        assert status == 200
        assert "gpujob_operator_leader 0.0" in text
        assert ask(scraped, token_of(api, "passer-by")) == (
            403,
            f"system:serviceaccount:{NAMESPACE}:passer-by may not get /metrics: bind ClusterRole gpujob-metrics-reader to it\n",
        )
        assert ask(scraped, token[:-4])[0] == 401
        assert ask(scraped, "")[0] == 401
    finally:
        api.kubectl("delete", "clusterrolebinding", "scraper")
        api.kubectl("delete", "serviceaccount", "scraper", "passer-by", f"-n{NAMESPACE}")
