"""`catalog pin` without a registry: names of images, logins, what answers mean, and what becomes of rows."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import pytest

from gpujob.catalog.files.extending import Extending
from gpujob.catalog.files.load import load_catalog
from gpujob.catalog.images.mirrors import Mirror
from gpujob.cli.registry import manifests
from gpujob.cli.registry.client import Challenge, NotSeen, challenge_in
from gpujob.cli.registry.credentials import Login, Logins, read_logins
from gpujob.cli.registry.manifests import Seen
from gpujob.cli.registry.pins import chosen, pin
from gpujob.cli.registry.reference import Reference, parse, pinned
from gpujob.values.errors import BadInput

DIGEST = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64


@pytest.mark.parametrize(
    ("image", "registry", "repository", "version", "host"),
    [
        ("busybox", "docker.io", "library/busybox", "latest", "registry-1.docker.io"),
        ("pytorch/pytorch:2.14.1", "docker.io", "pytorch/pytorch", "2.14.1", "registry-1.docker.io"),
        ("docker.io/rocm/pytorch:x", "docker.io", "rocm/pytorch", "x", "registry-1.docker.io"),
        ("nvcr.io/nvidia/pytorch:26.09-py3", "nvcr.io", "nvidia/pytorch", "26.09-py3", "nvcr.io"),
        ("localhost:5000/team/train", "localhost:5000", "team/train", "latest", "localhost:5000"),
        (f"registry.example/a/b/c:1@{DIGEST}", "registry.example", "a/b/c", DIGEST, "registry.example"),
        (f"quay.io/x/y@{DIGEST}", "quay.io", "x/y", DIGEST, "quay.io"),
    ],
)
def test_a_name_is_read_as_container_runtimes_read_it(
    image: str, registry: str, repository: str, version: str, host: str
) -> None:
    found = parse(image)
    assert (found.registry, found.repository, found.version, found.host) == (registry, repository, version, host)


def test_a_digest_replaces_an_earlier_one_and_the_tag_stays() -> None:
    assert pinned("pytorch/pytorch:2", DIGEST) == f"pytorch/pytorch:2@{DIGEST}"
    assert pinned(f"pytorch/pytorch:2@{OTHER}", DIGEST) == f"pytorch/pytorch:2@{DIGEST}"
    assert pinned("localhost:5000/a", DIGEST) == f"localhost:5000/a@{DIGEST}"


@pytest.mark.parametrize(
    ("headers", "challenge"),
    [
        (['Bearer realm="https://auth.example/token",service="r",scope="repository:a/b:pull"'],
         Challenge("bearer", "https://auth.example/token", "r", "repository:a/b:pull")),
        (['bearer realm=https://auth.example/token, service=r'], Challenge("bearer", "https://auth.example/token", "r")),
        (['Basic realm="Registry"'], Challenge("basic")),
        (['Basic realm="x"', 'Bearer realm="https://t"'], Challenge("bearer", "https://t")),
        (['Negotiate', 'Basic realm="x"'], Challenge("basic")),
        (["Negotiate"], None),
        (["Bearer service=x"], None),
        ([], None),
    ],
)  # fmt: skip
def test_a_challenge_is_read_in_every_form(headers: list[str], challenge: Challenge | None) -> None:
    assert challenge_in(headers) == challenge


def test_a_token_is_asked_for_pulling_alone() -> None:
    assert Challenge("bearer", "https://t/x", "r").url("a/b") == "https://t/x?service=r&scope=repository%3Aa%2Fb%3Apull"
    assert Challenge("bearer", "https://t/x?y=1").url("a") == "https://t/x?y=1&scope=repository%3Aa%3Apull"


def entry(user: str, password: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


def test_logins_are_those_of_docker_login(tmp_path: Path) -> None:
    config = {
        "auths": {
            "registry.example": entry("me", "pass:word"),
            "https://index.docker.io/v1/": entry("hub", "x"),
            "ghcr.io": {"identitytoken": "refresh"},
            "helper.example": {},
        }
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    logins = read_logins({"DOCKER_CONFIG": str(tmp_path)})
    assert logins.of("registry.example") == Login("me", "pass:word")
    assert logins.of("docker.io") == Login("hub", "x")
    assert logins.of("ghcr.io") == Login(refresh="refresh")
    assert logins.of("helper.example") == logins.of("quay.io") == Login()


def test_podman_and_an_explicit_file_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "containers").mkdir()
    (tmp_path / "containers" / "auth.json").write_text(json.dumps({"auths": {"quay.io": entry("p", "q")}}))
    assert read_logins({"XDG_RUNTIME_DIR": str(tmp_path), "DOCKER_CONFIG": str(tmp_path)}).of("quay.io") == Login(
        "p", "q"
    )
    named = tmp_path / "named.json"
    named.write_text(json.dumps({"auths": {"quay.io": entry("n", "m")}}))
    assert read_logins({"REGISTRY_AUTH_FILE": str(named)}).of("quay.io") == Login("n", "m")
    assert read_logins({"DOCKER_CONFIG": str(tmp_path)}).of("quay.io") == Login()


def test_a_credential_helper_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "docker-credential-vault"
    program.write_text('#!/bin/sh\nread host\n[ "$host" = down.example ] && exit 1\n'
                       '[ "$host" = token.example ] && echo \'{"Username": "<token>", "Secret": "r"}\' && exit\n'
                       'echo "{\\"Username\\": \\"u\\", \\"Secret\\": \\"of $host\\"}"\n')  # fmt: skip
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    logins = Logins({"credsStore": "vault", "credHelpers": {"a.example": "vault", "b.example": "missing"}})
    assert logins.of("a.example") == Login("u", "of a.example")
    assert logins.of("other.example") == Login("u", "of other.example")
    assert logins.of("token.example") == Login(refresh="r")
    assert logins.of("down.example") == Login()
    with pytest.raises(BadInput, match="names the credential helper docker-credential-missing, which cannot be run"):
        logins.of("b.example")
    with pytest.raises(BadInput, match=r"'\.\./x' is no name of a credential helper"):
        Logins({"credsStore": "../x"}).of("a.example")


@pytest.mark.parametrize("text", ["{", "\x00"])
def test_a_file_of_logins_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(BadInput, match=r"config\.json: is no readable JSON with logins of registries"):
        read_logins({"DOCKER_CONFIG": str(tmp_path)})


def test_a_login_that_is_no_base64_of_user_and_password_is_named() -> None:
    for auth in ("%%%", base64.b64encode(b"nocolon").decode()):
        with pytest.raises(BadInput, match=r"auths\['q'\]\.auth is not base64 of user:password; log in to q again"):
            Logins({"auths": {"q": {"auth": auth}}}).of("q")


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_an_answer_that_is_no_manifest_is_none(body: bytes) -> None:
    assert manifests.read(body) == {}


def test_attestations_in_an_index_are_no_architecture() -> None:
    platforms = [
        ("linux", "arm64"),
        ("linux", "amd64"),
        ("unknown", "unknown"),
        ("windows", "amd64"),
        ("linux", "amd64"),
    ]
    index = {"manifests": [{"platform": {"os": os, "architecture": cpu}} for os, cpu in platforms] + [{}, 7]}
    assert manifests.architectures_of(index) == ("amd64", "arm64")


def test_each_row_becomes_a_gpuruntime_that_extends_it() -> None:
    rows = load_catalog().runtimes
    asked: list[Reference] = []

    def see(image: Reference) -> Seen:
        asked.append(image)
        return Seen(DIGEST, ("amd64", "arm64"))

    found = pin(rows, [], see)
    assert len(found.runtimes) == len(asked) == len(rows) > 20
    assert (found.notes, found.failures) == ((), ())
    for row, made in zip(rows, found.runtimes, strict=True):
        (read,) = Extending(made).runtimes(rows)
        assert read.unreadable == ""
        assert (read.name, read.image, read.cpu_architectures) == (
            row.name,
            f"{row.image}@{DIGEST}",
            row.cpu_architectures,
        )
        assert (read.backend_version, read.architectures, read.features) == (
            row.backend_version,
            row.architectures,
            row.features,
        )


def test_a_mirror_is_asked_and_the_name_stays_the_rows() -> None:
    row = next(row for row in load_catalog().runtimes if row.image.startswith("rocm/pytorch:"))
    asked: list[Reference] = []
    found = pin(
        [row],
        [Mirror("docker.io/rocm", "registry.example/rocm")],
        lambda image: asked.append(image) or Seen(DIGEST, ("amd64",)),
    )  # type: ignore[func-returns-value]
    assert (asked[0].host, asked[0].repository) == ("registry.example", "rocm/pytorch")
    assert found.runtimes[0]["spec"]["image"] == f"{row.image}@{DIGEST}"


def test_what_the_registry_lacks_is_said_and_the_others_are_pinned() -> None:
    rows = [row for row in load_catalog().runtimes if row.cpu_architectures == ("amd64", "arm64")][:3]
    assert len(rows) == 3
    answers = iter([Seen(DIGEST, ("amd64",)), Seen(DIGEST, ("s390x",)), Seen(DIGEST, ("amd64", "arm64"))])
    found = pin(rows, [], lambda _: next(answers))
    assert [made["metadata"]["name"] for made in found.runtimes] == [rows[0].name, rows[2].name]
    assert found.runtimes[0]["spec"]["cpuArchitectures"] == ["amd64"]
    assert "cpuArchitectures" not in found.runtimes[1]["spec"]
    assert found.notes == (
        f"{rows[0].name}: {rows[0].image} has nothing for arm64, so nodes of it do not get this image",
    )
    assert found.failures == (
        f"{rows[1].name}: {rows[1].image} is for s390x, and the row for amd64 and arm64: copy the image of amd64 and arm64",
    )
    (read,) = Extending(found.runtimes[0]).runtimes(load_catalog().runtimes)
    assert read.cpu_architectures == ("amd64",)


def test_a_registry_that_fails_stops_no_other_row() -> None:
    rows = list(load_catalog().runtimes)[:2]

    def see(image: Reference) -> Seen:
        if image.version == parse(rows[0].image).version and image.repository == parse(rows[0].image).repository:
            raise NotSeen("there is none")
        return Seen(DIGEST, ("amd64", "arm64"))

    found = pin(rows, [], see)
    assert found.failures == (f"{rows[0].name}: there is none",)
    assert [made["metadata"]["name"] for made in found.runtimes] == [rows[1].name]


def test_a_runtime_that_no_row_has_is_bad_input() -> None:
    rows = load_catalog().runtimes
    assert [row.name for row in chosen(rows, [rows[1].name, rows[0].name, rows[1].name])] == [
        rows[1].name,
        rows[0].name,
    ]
    with pytest.raises(BadInput, match=rf"the catalog has no runtime {rows[0].name}x; did you mean "):
        chosen(rows, [f"{rows[0].name}x"])
    with pytest.raises(BadInput, match="the catalog has no runtime zzzzzz; `gpujob catalog runtimes` lists them"):
        chosen(rows, ["zzzzzz"])
