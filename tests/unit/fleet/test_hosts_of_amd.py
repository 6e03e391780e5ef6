"""Kernel and operating system of AMD nodes: a warning in plans and pools, never a refusal and never a lower rank."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, MI300X, Object, decision, fleet, gpupool, node

from gpujob.placement.scoring.candidate import best_per_pool
from gpujob.status import pools as publish
from gpujob.values.vocabulary import Verdict

UBUNTU = "Ubuntu 24.04.3 LTS"
KNOWN = "ROCm is known to run on Ubuntu 22.04 and 24.04, RHEL 9 and SLES 15 SP4 or later"


def host(name: str, kernel: Any = "6.8.0-79-generic", system: Any = UBUNTU, gpu: Any = MI300X, **more: Any) -> Object:
    found = node(name, gpu, price="2", **more)
    found["status"]["nodeInfo"] = {"kernelVersion": kernel, "osImage": system}
    return found


def warnings(*nodes: Object) -> dict[str, str]:
    (pool,) = fleet(*nodes).pools
    return {
        warning.reason.value: warning.message
        for warning in pool.warnings
        if warning.reason.value in ("KernelOld", "SystemUnlisted")
    }


@pytest.mark.parametrize(
    ("kernel", "system"),
    [
        ("6.8.0-79-generic", "Ubuntu 24.04.3 LTS"),
        ("5.15.0-100-generic", "Ubuntu 22.04.5 LTS"),
        ("6.8.0-1015-azure", "Ubuntu 22.04.4 LTS"),
        ("5.15", "Ubuntu 22.04.5 LTS"),
        # Their makers bring newer drivers into an older kernel.
        ("5.14.0-427.13.1.el9_4.x86_64", "Red Hat Enterprise Linux 9.4 (Plow)"),
        ("5.14.0-427.40.1.el9_4.x86_64", "Red Hat Enterprise Linux CoreOS 417.94.202411261220-0"),
        ("5.14.0-570.12.1.el9_6.x86_64", "Red Hat Enterprise Linux CoreOS 9.6.20250513-0 (Plow)"),
        ("5.14.0-503.el9.x86_64", "Rocky Linux 9.5 (Blue Onyx)"),
        ("5.15.0-300.163.18.el9uek.x86_64", "Oracle Linux Server 9.5"),
        ("5.14.21-150400.24.81-default", "SUSE Linux Enterprise Server 15 SP4"),
        ("6.4.0-150600.23.7-default", "SUSE Linux Enterprise Server 15 SP6"),
        # What is not reported gets no warning, nor what is no text.
        ("", ""), (None, None), (5.4, ["Debian"]), ("unknown", UBUNTU),
    ],
)  # fmt: skip
def test_a_host_on_which_rocm_is_known_to_run_has_no_warning(kernel: Any, system: Any) -> None:
    assert warnings(host("a", kernel, system)) == {}


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        ("5.3.18-59", "node a has Linux 5.3.18-59; ROCm needs 5.4 at least, 5.15 is better; upgrade the kernel"),
        ("4.18.0-553.el8", "node a has Linux 4.18.0-553.el8; ROCm needs 5.4 at least, 5.15 is better; upgrade the kernel"),
        ("5.4.0-216-generic", "node a has Linux 5.4.0-216-generic; 5.15 or later is better for ROCm; upgrade the kernel"),
        ("5.4", "node a has Linux 5.4; 5.15 or later is better for ROCm; upgrade the kernel"),
        ("5.14.9", "node a has Linux 5.14.9; 5.15 or later is better for ROCm; upgrade the kernel"),
    ],
)  # fmt: skip
def test_an_older_kernel_is_a_warning(kernel: str, said: str) -> None:
    assert warnings(host("a", kernel)) == {"KernelOld": said}


@pytest.mark.parametrize(
    "system",
    [
        "Ubuntu 20.04.6 LTS", "Ubuntu 23.10", "Debian GNU/Linux 11 (bullseye)", "Red Hat Enterprise Linux 8.10 (Ootpa)",
        "Red Hat Enterprise Linux CoreOS 412.86.202212170457-0", "SUSE Linux Enterprise Server 15 SP3", "SLES 12 SP5",
        "Amazon Linux 2023.6.20241010", "Talos (v1.8.3)", "Flatcar Container Linux by Kinvolk 4081.2.0 (Oklo)", "Kubuntu 24.04",
    ],
)  # fmt: skip
def test_another_system_is_a_warning_with_those_that_are_known(system: str) -> None:
    assert warnings(host("a", system=system)) == {"SystemUnlisted": f"node a has {system}; {KNOWN}"}


def test_of_several_nodes_the_first_is_named_and_the_others_counted() -> None:
    nodes = [host("c", "5.4.1"), host("b", "5.4.0"), host("a"), host("d", "5.10.0", "Debian GNU/Linux 11 (bullseye)")]
    assert warnings(*nodes) == {
        "KernelOld": "node b (and 2 more nodes likewise) has Linux 5.4.0; 5.15 or later is better for ROCm; upgrade the kernel",
        "SystemUnlisted": f"node d has Debian GNU/Linux 11 (bullseye); {KNOWN}",
    }


def test_nodes_of_nvidia_have_no_such_warning() -> None:
    assert warnings(host("a", "4.18.0", "Ubuntu 18.04", H100)) == {}


def test_a_plan_shows_it_and_places_the_job_all_the_same() -> None:
    old = host("a", "5.4.0", "Ubuntu 20.04.6 LTS")
    found = decision(old)
    assert found.verdict is Verdict.PLACED
    assert {"KernelOld", "SystemUnlisted"} <= {warning.reason.value for warning in best_per_pool(found)[0].warnings}


def test_it_lowers_no_rank() -> None:
    # Equal in all else but the label that makes two pools; the first by name wins with and without the warning.
    first, second = (gpupool(name, {"rack": name}) for name in ("x", "y"))
    for kernel in ("5.4.0", "6.8.0"):
        found = decision(host("a", kernel, labels={"rack": "x"}), host("b", labels={"rack": "y"}), first, second)
        assert found.choice is not None
        assert found.choice.candidate.pool.name == "x"


def test_an_admin_s_pool_and_its_published_condition_have_it_too() -> None:
    found = fleet(host("a", "5.4.0", labels={"rack": "x"}), gpupool("mine", {"rack": "x"}))
    (pool,) = found.pools
    (read,) = [
        each for each in publish.status(pool, found, {}, "2026-01-01T00:00:00Z")["conditions"] if each["type"] == "Read"
    ]
    assert "node a has Linux 5.4.0; 5.15 or later is better for ROCm; upgrade the kernel" in read["message"]


def test_a_hostile_report_stays_one_short_line() -> None:
    said = warnings(host("a", "5.4.0", "Evil\n\x1b[31m" + "x" * 500))["SystemUnlisted"]
    assert "\n" not in said
    assert "\x1b" not in said
    assert len(said) < 250
