"""A real registry of images (CNCF Distribution) with TLS and a token server, for tests of what asks registries.

Repositories below `open/` are pulled without a login, all others with the one of USER.
"""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

from tests.e2e.cluster.binaries import RELEASE_MODULE, RELEASE_TOOLS, build
from tests.ports import free_port

USER, PASSWORD, REFRESH = "puller", "pass:word", "refresh-token"
_SERVICE, _ISSUER = "tests", "tests"
OCI = "application/vnd.oci.image"


@dataclass(frozen=True)
class Registry:
    """A running registry: its name in image references, and the certificate that it is trusted by."""

    name: str
    folder: Path

    @property
    def certificate(self) -> Path:
        return self.folder / "tls.crt"

    def push(self, repository: str, tag: str, cpu: str = "amd64") -> str:
        """A small image for one CPU; its digest."""
        configuration = self._blob(repository, json.dumps({"architecture": cpu, "os": "linux"}).encode())
        manifest = {
            "schemaVersion": 2, "mediaType": f"{OCI}.manifest.v1+json",
            "config": {"mediaType": f"{OCI}.config.v1+json", **configuration}, "layers": [],
        }  # fmt: skip
        return self._manifest(repository, tag, manifest)

    def push_index(self, repository: str, tag: str, *cpus: str) -> str:
        """An image for several CPUs; the digest of its index."""
        entries = []
        for cpu in cpus:
            digest = self.push(repository, f"{tag}-{cpu}", cpu)
            size = len(self._call("GET", f"{repository}/manifests/{digest}", repository)[1])
            entries.append({
                "mediaType": f"{OCI}.manifest.v1+json", "digest": digest, "size": size,
                "platform": {"os": "linux", "architecture": cpu},
            })  # fmt: skip
        index = {"schemaVersion": 2, "mediaType": f"{OCI}.index.v1+json", "manifests": entries}
        return self._manifest(repository, tag, index)

    def has(self, repository: str, digest: str) -> bool:
        """Whether a manifest of this digest is there."""
        return _digest(self._call("GET", f"{repository}/manifests/{digest}", repository)[1]) == digest

    def _manifest(self, repository: str, tag: str, manifest: dict[str, Any]) -> str:
        body = json.dumps(manifest).encode()
        self._call("PUT", f"{repository}/manifests/{tag}", repository, body, manifest["mediaType"])
        return _digest(body)

    def _blob(self, repository: str, body: bytes) -> dict[str, Any]:
        place, _ = self._call("POST", f"{repository}/blobs/uploads/", repository, b"")
        joint = "&" if "?" in place else "?"
        self._call("PUT", f"{place}{joint}digest={_digest(body)}", repository, body, "application/octet-stream")
        return {"digest": _digest(body), "size": len(body)}

    def _call(
        self, method: str, path: str, repository: str, body: bytes | None = None, kind: str = ""
    ) -> tuple[str, bytes]:
        """The header Location and the body of an answer, with every right on the repository."""
        url = path if path.startswith("https:") else f"https://{self.name}/v2/{path}"
        token = _token(self.folder, [{"type": "repository", "name": repository, "actions": ["pull", "push"]}])
        headers = {"Authorization": f"Bearer {token}", "Accept": f"{OCI}.manifest.v1+json, {OCI}.index.v1+json"}
        request = Request(url, body, headers | ({"Content-Type": kind} if kind else {}), method=method)
        with urlopen(request, context=ssl.create_default_context(cafile=str(self.certificate)), timeout=10) as answer:
            return str(answer.headers.get("Location", "")), answer.read()


@contextmanager
def started(folder: Path) -> Iterator[Registry]:
    """The registry and its token server, until the block ends."""
    program = build(RELEASE_TOOLS, RELEASE_MODULE) / "registry"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=registry", "-days", "2",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "tls.key", "-out", "tls.crt"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    with _tokens(folder) as realm:
        port = free_port()
        settings = {
            "version": "0.1",
            "log": {"level": "error", "accesslog": {"disabled": True}},
            "storage": {"inmemory": {}},
            "http": {
                "addr": f"127.0.0.1:{port}",
                "tls": {"certificate": f"{folder}/tls.crt", "key": f"{folder}/tls.key"},
            },
            "auth": {
                "token": {"realm": realm, "service": _SERVICE, "issuer": _ISSUER, "rootcertbundle": f"{folder}/tls.crt"}
            },
        }
        (folder / "registry.yml").write_text(json.dumps(settings))
        with (folder / "registry.log").open("w") as log:
            process = subprocess.Popen([program, folder / "registry.yml"], stdout=log, stderr=log)
        try:
            _wait_for(port, process, folder)
            yield Registry(f"localhost:{port}", folder)
        finally:
            process.terminate()
            process.wait(10)


def _wait_for(port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"the registry does not listen: {(folder / 'registry.log').read_text()[-2000:]}")


@contextmanager
def _tokens(folder: Path) -> Iterator[str]:
    """A token server as registries name one in WWW-Authenticate; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = self.headers.get("authorization", "")
            login = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            asked = parse_qs(urlsplit(self.path).query)
            self._answer(asked, known=sent == login, wrong=bool(sent) and sent != login)

        def do_POST(self) -> None:
            asked = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
            known = asked["grant_type"] == ["refresh_token"] and asked["refresh_token"] == [REFRESH]
            self._answer(asked, known=known, wrong=not known)

        def _answer(self, asked: dict[str, list[str]], *, known: bool, wrong: bool) -> None:
            granted = []
            for scope in asked.get("scope", []):
                kind, name, actions = scope.split(":")
                # Who is known may pull and push, others may pull what is open.
                allowed = actions.split(",") if known else ["pull"] if name.startswith("open/") else []
                granted.append({"type": kind, "name": name, "actions": allowed})
            self.send_response(401 if wrong else 200)
            self.end_headers()
            self.wfile.write(b"{}" if wrong else json.dumps({"token": _token(folder, granted)}).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://localhost:{server.server_address[1]}/token"
    server.shutdown()
    server.server_close()


def _token(folder: Path, access: list[dict[str, Any]]) -> str:
    """A JSON Web Token with these rights, signed with the key of the certificate that the registry trusts."""
    now = int(time.time())
    chain = ssl.PEM_cert_to_DER_cert((folder / "tls.crt").read_text())
    header = {"typ": "JWT", "alg": "RS256", "x5c": [base64.b64encode(chain).decode()]}
    claims = {
        "iss": _ISSUER, "sub": "tests", "aud": _SERVICE, "iat": now - 10, "nbf": now - 10, "exp": now + 300,
        "jti": hashlib.sha256(json.dumps(access).encode()).hexdigest(), "access": access,
    }  # fmt: skip
    signed = ".".join(_url(json.dumps(each).encode()) for each in (header, claims))
    command = ["openssl", "dgst", "-sha256", "-sign", folder / "tls.key"]
    signature = subprocess.run(command, input=signed.encode(), capture_output=True, check=True).stdout
    return f"{signed}.{_url(signature)}"


def _url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"
