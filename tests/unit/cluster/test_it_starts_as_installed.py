"""`python -m gpujob.cluster` starts in a pod of the chart: any user, no passwd entry, no home, a read-only root."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import socket
import ssl
import subprocess
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from gpujob.api.served import OPENAPI
from gpujob.cluster.client.kubeconfig import Connection, UnusableConnection, tls_context
from tests.ports import free_port
from tests.unit.api.test_served_crds import document
from tests.unit.cluster.as_installed import USER, command_line, missing

SURROUNDINGS = """
import getpass, json, os, pathlib, tempfile
def outcome(call):
    try:
        return call() and "possible"
    except Exception as error:
        return type(error).__name__
print(json.dumps({
    "uid": os.getuid(),
    "user": outcome(getpass.getuser),
    "temporary": outcome(tempfile.gettempdir),
    "home": outcome(lambda: pathlib.Path.home().joinpath("x").touch() or "made"),
    "here": outcome(lambda: pathlib.Path("x").touch() or "made"),
}))
"""


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificate (ca.crt) and the key of a server at 127.0.0.1 and ::1, and a token."""
    folder = tmp_path_factory.mktemp("account")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=api", "-days", "2",
         "-addext", "subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost", "-keyout", "server.key", "-out", "ca.crt"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    (folder / "token").write_text("a token")
    return folder


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def _answer(request: web.Request) -> web.StreamResponse:
    """An API server of an empty cluster."""
    parts = request.path.strip("/").split("/")
    if request.query.get("watch"):
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()
    if "leases" in parts:
        if request.method == "GET":
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        body = await request.json()
        body["metadata"] = {**body.get("metadata", {}), "resourceVersion": "2"}
        return web.json_response(body)
    if request.path == OPENAPI:
        return web.json_response(document())
    if request.path in ("/api", "/apis"):
        return web.json_response({"kind": "APIGroupList", "versions": ["v1"], "groups": []})
    return web.json_response({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": [], "resources": []})


@asynccontextmanager
async def api_server(folder: Path, host: str = "127.0.0.1", answer: Answer = _answer) -> AsyncIterator[int]:
    """The port of an API server that speaks TLS, as every one does."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "ca.crt", folder / "server.key")
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with serving(app, tls, host) as port:
        yield port


@asynccontextmanager
async def serving(app: web.Application, tls: ssl.SSLContext, host: str = "127.0.0.1") -> AsyncIterator[int]:
    server = TestServer(app, scheme="https", host=host)
    await server.start_server(ssl=tls)
    try:
        assert server.port is not None
        yield server.port
    finally:
        await server.close()


def needs_namespaces() -> None:
    if lacks := missing():
        pytest.skip(lacks)


def test_the_surroundings_are_those_of_a_pod(certificate: Path) -> None:
    needs_namespaces()
    command = command_line(certificate, {}, "-c", SURROUNDINGS)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "uid": USER,
        "user": "KeyError",
        "temporary": "FileNotFoundError",
        "home": "RuntimeError",
        "here": "OSError",
    }


def needs_ipv6() -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError as error:
        pytest.skip(f"this machine has no address ::1: {error}")


@asynccontextmanager
async def started(settings: dict[str, str], folder: Path, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """The operator's process in a pod's surroundings; killed if it still runs in the end."""
    with log.open("wb") as output:
        command = command_line(folder, settings, "-m", "gpujob.cluster")
        process = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def leads(process: asyncio.subprocess.Process, host: str, health: int, log: Path) -> None:
    """Waits until the process is ready and holds the Lease; it must not end before."""
    async with asyncio.timeout(60), aiohttp.ClientSession() as session:
        while not await is_ready(session, host, health) or "lease acquired" not in log.read_text():
            assert process.returncode is None, log.read_text()
            await asyncio.sleep(0.1)


async def ends_well(process: asyncio.subprocess.Process, log: Path) -> None:
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 20) == 0, log.read_text()
    assert "Traceback" not in log.read_text()
    assert "lease released" in log.read_text()


def settings_for(host: str, port: int, health: int) -> dict[str, str]:
    return {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": str(port),
        "GPUJOB_HEALTH_PORT": str(health),
        "GPUJOB_METRICS_PORT": "0",
    }


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_the_operator_starts_leads_and_stops_as_installed(host: str, certificate: Path, tmp_path: Path) -> None:
    needs_namespaces()
    if host == "::1":
        needs_ipv6()
    health, log = free_port(), tmp_path / "operator.log"
    async with (
        api_server(certificate, host) as port,
        started(settings_for(host, port, health), certificate, log) as process,
    ):
        await leads(process, host, health, log)
        await ends_well(process, log)


async def test_an_operator_that_starts_in_an_outage_stays_and_leads_when_it_is_over(
    certificate: Path, tmp_path: Path
) -> None:
    """A token that is not known yet, and then an API server whose lists of groups fail without end."""
    needs_namespaces()
    health, log, over = free_port(), tmp_path / "operator.log", asyncio.Event()
    asked: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        if not over.is_set():
            return web.json_response({"kind": "Status", "code": 401, "reason": "Unauthorized"}, status=401)
        if request.path in ("/api", "/apis"):
            return web.json_response({"kind": "Status", "code": 500, "reason": "InternalError"}, status=500)
        return await _answer(request)

    async with (
        api_server(certificate, answer=answer) as port,
        started(settings_for("127.0.0.1", port, health), certificate, log) as process,
    ):
        async with asyncio.timeout(60):
            while len(asked) < 40:
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.1)
        over.set()
        await leads(process, "127.0.0.1", health, log)
        await ends_well(process, log)
    assert not {"/api", "/apis"} & set(asked), "the shell asks for nothing by itself"


async def test_the_operator_leads_by_a_kubeconfig_that_holds_its_certificate(certificate: Path, tmp_path: Path) -> None:
    needs_namespaces()
    health, log, folder = free_port(), tmp_path / "operator.log", tmp_path / "account"
    shutil.copytree(certificate, folder)
    pem, key = (b64encode((certificate / name).read_bytes()).decode() for name in ("ca.crt", "server.key"))
    async with api_server(certificate) as port:
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": pem}
        named = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"client-certificate-data": pem, "client-key-data": key}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        (folder / "kubeconfig").write_text(json.dumps(named))
        settings = settings_for("127.0.0.1", port, health) | {
            "KUBECONFIG": "/run/secrets/kubernetes.io/serviceaccount/kubeconfig"
        }
        async with started(settings, folder, log) as process:
            await leads(process, "127.0.0.1", health, log)
            await ends_well(process, log)


def test_without_a_cluster_the_operator_ends_with_a_sentence(certificate: Path) -> None:
    needs_namespaces()
    done = subprocess.run(
        command_line(certificate, {}, "-m", "gpujob.cluster"), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.splitlines()[0][:40]) == (2, "cannot read kubeconfig ~/.kube/config: [")


async def is_ready(session: aiohttp.ClientSession, host: str, port: int) -> bool:
    try:
        async with session.get(URL.build(scheme="http", host=host, port=port, path="/readyz")) as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


# --- Client certificates ----------------------------------------------------------------------------------------------


@pytest.fixture
def nothing_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request for a temporary file or folder fails."""

    def refuse(*_: object, **__: object) -> None:
        raise FileNotFoundError("no usable temporary directory")

    for name in ("gettempdir", "mkdtemp", "mkstemp", "TemporaryDirectory", "NamedTemporaryFile"):
        monkeypatch.setattr(f"tempfile.{name}", refuse)


@pytest.mark.usefixtures("nothing_on_disk")
@pytest.mark.parametrize(
    "given", ["none", "files", "data", "certificate in a file, key as data", "one file", "one text"]
)
def test_no_way_to_give_a_client_certificate_needs_a_folder(given: str, certificate: Path) -> None:
    cert, key = certificate / "ca.crt", certificate / "server.key"
    (both := certificate / "both.pem").write_text(cert.read_text() + key.read_text())
    ways: dict[str, dict[str, Any]] = {
        "none": {},
        "files": {"client_cert_file": str(cert), "client_key_file": str(key)},
        "data": {"client_cert_data": cert.read_text(), "client_key_data": key.read_text()},
        "certificate in a file, key as data": {"client_cert_file": str(cert), "client_key_data": key.read_text()},
        "one file": {"client_cert_file": str(both)},
        "one text": {"client_cert_data": both.read_text()},
    }
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert isinstance(tls_context(Connection("https://127.0.0.1:1", ca_file=str(cert), **ways[given])), ssl.SSLContext)
    assert len(list(Path("/proc/self/fd").iterdir())) == before, "what held the key in memory is closed"


@pytest.mark.parametrize("data", ["no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ""])
def test_a_client_certificate_that_is_none_is_refused_with_a_sentence(data: str) -> None:
    with pytest.raises(UnusableConnection, match=r"^certificates for https://127\.0\.0\.1:1 cannot be loaded: "):
        tls_context(Connection("https://127.0.0.1:1", client_cert_data=data, client_key_data=data))


async def test_a_client_certificate_given_as_data_is_shown_to_the_server(certificate: Path) -> None:
    shown: list[object] = []

    async def look(request: web.Request) -> web.Response:
        assert request.transport is not None
        shown.append(request.transport.get_extra_info("peercert")["subject"])
        return web.Response()

    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificate / "ca.crt"))
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(certificate / "ca.crt", certificate / "server.key")
    app = web.Application()
    app.router.add_get("/", look)
    pem, key = ((certificate / name).read_text() for name in ("ca.crt", "server.key"))
    client = Connection("https://127.0.0.1", ca_data=pem, client_cert_data=pem, client_key_data=key)
    async with (
        serving(app, tls) as port,
        aiohttp.ClientSession() as session,
        session.get(f"https://127.0.0.1:{port}/", ssl=tls_context(client)) as answer,
    ):
        assert answer.status == 200
    assert shown == [((("commonName", "api"),),)]
