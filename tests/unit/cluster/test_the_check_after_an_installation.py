"""The arguments of the check that `helm test` runs, and what it prints where the API server cannot be used."""

from __future__ import annotations

import pytest

from gpujob.cluster.app import installed
from gpujob.cluster.client.api_errors import Forbidden
from gpujob.cluster.client.kubeconfig import UnusableConnection


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        ((), {}, ("default", installed.SECONDS)),
        (("3",), {"GPUJOB_NAMESPACE": "team"}, ("team", 3.0)),
        (("3", "7"), {"GPUJOB_NAMESPACE": ""}, ("default", 3.0)),
    ],
)
def test_the_first_argument_is_the_time_and_the_namespace_is_a_variable(
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    expected: tuple[str, float],
) -> None:
    seen = list[tuple[str, float]]()

    async def check(namespace: str, seconds: float) -> int:
        seen.append((namespace, seconds))
        return 0

    monkeypatch.setattr(installed, "check", check)
    monkeypatch.delenv("GPUJOB_NAMESPACE", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert installed.main(arguments) == 0
    assert seen == [expected]


@pytest.mark.parametrize("error", [Forbidden(403, "Forbidden", "no rights"), UnusableConnection("no rights")])
def test_what_is_refused_is_printed_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    async def check(namespace: str, seconds: float) -> int:
        raise error

    monkeypatch.setattr(installed, "check", check)
    assert installed.main() == 1
    out, said = capsys.readouterr()
    assert (out, said.count("\n")) == ("", 1)
    assert said.startswith("the job could not be submitted, read or deleted: ")
    assert "no rights" in said
