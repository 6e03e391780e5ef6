"""What a registry, or who is in its place, can get of `catalog pin`: no login for another host, no plain HTTP, no endless answer."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from urllib3 import HTTPHeaderDict

from gpujob.cli.registry.client import LARGEST, Client, NotSeen
from gpujob.cli.registry.credentials import Logins
from gpujob.cli.registry.manifests import digest_of
from gpujob.cli.registry.reference import parse

HOST = "registry.example"
IMAGE = parse(f"{HOST}/team/train:1")
LOGIN = base64.b64encode(b"me:secret").decode()
INDEX = json.dumps({"manifests": [{"platform": {"os": "linux", "architecture": "amd64"}}]}).encode()
BEARER = {"www-authenticate": f'Bearer realm="https://{HOST}/token",service="s"'}


@dataclass
class Answer:
    """One answer as urllib3 gives it."""

    status: int
    body: bytes = b""
    headers: Any = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.headers = HTTPHeaderDict(self.headers)

    def read(self, most: int) -> bytes:
        return self.body[:most]

    def close(self) -> None:
        pass


class Servers:
    """Answers by address; what was sent is kept."""

    def __init__(self, **answers: Answer | list[Answer]) -> None:
        self.answers = answers
        self.sent: list[tuple[str, str]] = []

    def request(self, method: str, url: str, *, headers: dict[str, str], **_: Any) -> Answer:
        self.sent.append((url, headers.get("authorization", "")))
        name = next(name for name in self.answers if name in url.replace("-", "_").replace(".", "_"))
        found = self.answers[name]
        return found.pop(0) if isinstance(found, list) else found


def client(servers: Servers, **auths: str) -> Client:
    made = Client(Logins({"auths": {host.replace("_", "."): {"auth": auth} for host, auth in auths.items()}}))
    made._direct = made._by_proxy = servers
    return made


def redirect(to: str) -> Answer:
    return Answer(307, headers={"location": to})


def test_a_redirect_to_another_host_loses_the_login() -> None:
    servers = Servers(
        token=Answer(200, b'{"token": "t"}'), store_example=Answer(200, INDEX),
        registry_example=[Answer(401, headers=BEARER), redirect("https://store.example/x")],
    )  # fmt: skip
    assert client(servers, registry_example=LOGIN).seen(IMAGE).cpu_architectures == ("amd64",)
    sent = {url.partition("?")[0]: authorization for url, authorization in servers.sent}
    assert sent[f"https://{HOST}/token"] == f"Basic {LOGIN}"
    assert sent[f"https://{HOST}/v2/team/train/manifests/1"] == "Bearer t"
    assert sent["https://store.example/x"] == ""


def test_a_redirect_of_the_same_host_keeps_it() -> None:
    basic = {"www-authenticate": 'Basic realm="x"'}
    servers = Servers(registry_example=[Answer(401, headers=basic), redirect("/v2/elsewhere"), Answer(200, INDEX)])
    client(servers, registry_example=LOGIN).seen(IMAGE)
    assert servers.sent[-1] == (f"https://{HOST}/v2/elsewhere", f"Basic {LOGIN}")


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([redirect("http://store.example/x")], "redirects to an address without TLS"),
        ([redirect("/again")] * 9, "redirects more than 3 times"),
        ([Answer(401, headers={"www-authenticate": 'Bearer realm="http://t.example/token"'})],
         "names a token server without TLS, http://t.example/token"),
        ([Answer(401, headers={"www-authenticate": "Negotiate"})], "asks for a login of a kind that is not known"),
        ([Answer(401)], "asks for a login of a kind that is not known"),
        ([Answer(200, b"x" * (LARGEST + 1))], "answers with more than 4 MiB"),
        ([Answer(200, b"{}")], "is no image"),
        ([Answer(200, b"<html>")], "is no image"),
        ([Answer(200, json.dumps({"config": {"digest": "sha256:" + "0" * 64}}).encode()), Answer(200, b"{}")],
         "another configuration than its manifest names"),
        ([Answer(429)], "limits how often it answers"),
        ([Answer(500)], "answers with status 500 for team/train"),
        ([Answer(404)], "has no 1: choose another row"),
    ],
)  # fmt: skip
def test_what_is_odd_is_a_sentence_about_the_registry(answers: list[Answer], said: str) -> None:
    with pytest.raises(NotSeen, match=said) as told:
        client(Servers(registry_example=list(answers))).seen(IMAGE)
    assert HOST in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("body", [b"{}", b'{"token": 7}', b'{"token": "a\\nb"}', b"[]", b""])
def test_a_token_that_is_none_is_a_login_that_is_refused(body: bytes) -> None:
    servers = Servers(token=Answer(200, body), registry_example=[Answer(401, headers=BEARER)])
    with pytest.raises(NotSeen, match="the login is refused"):
        client(servers, registry_example=LOGIN).seen(IMAGE)


def test_other_bytes_for_a_digest_are_not_taken() -> None:
    wanted = f"sha256:{'0' * 64}"
    with pytest.raises(NotSeen, match=rf"answers with {digest_of(INDEX)} for {wanted}: do not trust it"):
        client(Servers(registry_example=Answer(200, INDEX))).seen(parse(f"{HOST}/team/train:1@{wanted}"))


def test_a_login_goes_to_no_other_registry() -> None:
    servers = Servers(other_example=Answer(200, INDEX))
    client(servers, registry_example=LOGIN).seen(parse("other.example/a/b:1"))
    assert servers.sent == [("https://other.example/v2/a/b/manifests/1", "")]
