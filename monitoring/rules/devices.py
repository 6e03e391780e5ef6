"""DCGM exporter and AMD's device metrics exporter under one set of names, for the devices that GPUJobs hold.

What differs between the two, and is made equal here:

- where the workload's pod is: DCGM's chart scrapes without honorLabels, so that it is `exported_pod`; AMD's with it: `pod`;
- units: percent against ratios, MiB (both; AMD writes MB), millijoules against microjoules;
- names of devices: `gpu` and `GPU_I_ID` of a MIG slice; `gpu_id` and `gpu_partition_id`;
- names of nodes: `hostname` (`Hostname` before DCGM exporter 4.5);
- AMD's names may carry a prefix (MetricsFieldPrefix of its configuration), `amd_` by its own documentation.

What only a whole device knows is absent for its parts: power and energy of a MIG slice are those of its whole GPU, and an
AMD partition's activity, power and energy are reported by partition 0 for all; a GPU that several pods share (time-slicing, MPS)
has one power and energy for all of them. Absent is better than counted seven times.

Sources: NVIDIA/dcgm-exporter etc/default-counters.csv and deployment/values.yaml; ROCm/device-metrics-exporter
docs/configuration/metricslist.md and docs/integrations/prometheus-servicemonitor.md, both as of August 2026.
"""

from __future__ import annotations

from typing import Final

from monitoring.rules.rule import Group, Record

POD_INFO: Final = "gpujob:pod:info"
"""1 for each pod of a GPUJob that Prometheus knows of; labels namespace, pod, job."""

PARTITIONED: Final = "(?i)(dpx|tpx|qpx|cpx)"
"""Values of AMD's gpu_compute_partition_type for a device that is divided."""

MIB: Final = "1048576"


def _amd(name: str, matchers: str = "") -> str:
    """AMD's series of a name, with its prefix or without."""
    return f'{{__name__=~"(amd_)?{name}"{matchers}}}'


def _amd_whole(name: str) -> str:
    return _amd(name, f', gpu_compute_partition_type!~"{PARTITIONED}"')


def _labelled(vector: str, vendor: str, slot: tuple[str, str], whole: str) -> str:
    """A vector with namespace and pod of the workload, node, device and vendor; `whole` is what a slot ends in that is no part."""
    steps = [
        ("label_replace", '"namespace", "$1", "exported_namespace", "(.+)"'),
        ("label_replace", '"pod", "$1", "exported_pod", "(.+)"'),
        ("label_replace", '"node", "$1", "hostname", "(.+)"'),
        ("label_replace", '"node", "$1", "Hostname", "(.+)"'),
        ("label_join", f'"device", "/", "{slot[0]}", "{slot[1]}"'),
        ("label_replace", f'"device", "$1", "device", "(.+?)/{whole}"'),
        ("label_replace", f'"vendor", "{vendor}", "", ""'),
    ]
    calls = "(".join(name for name, _ in reversed(steps))
    return f"  {calls}(\n    {vector},\n" + ",\n".join(f"    {words})" for _, words in steps)


def _of_jobs(nvidia: str, amd: str = "") -> str:
    """The devices of both vendors that pods of GPUJobs hold, with the job's name."""
    vectors = [_labelled(nvidia, "NVIDIA", ("gpu", "GPU_I_ID"), "")]
    if amd:
        vectors.append(_labelled(amd, "AMD", ("gpu_id", "gpu_partition_id"), "(?:NA|0)?"))
    both = "\n  or\n".join(vectors)
    return (
        f"max by (namespace, pod, node, device, vendor) (\n{both}\n)\n"
        f"* on (namespace, pod) group_left (job) {POD_INFO}\n"
    )


def _unshared(name: str) -> str:
    """NVIDIA's series of whole devices, but for those that several pods share: each would have all of it."""
    whole = f'{name}{{GPU_I_ID=""}}'
    pods = "UUID, namespace, pod, exported_namespace, exported_pod"
    shared = f'count by (UUID) (group by ({pods}) ({name}{{GPU_I_ID="", UUID!=""}})) > 1'
    return f"({whole} unless on (UUID) {shared})"


def _ecc(nvidia: str, amd: str, kind: str) -> Record:
    return Record("gpujob:device_ecc_errors_total", _of_jobs(nvidia, _amd(amd)), {"kind": kind})


_POD_INFO: Final = """\
group by (namespace, pod, job) (label_replace(up{gpujob_attempt!=""}, "job", "$1", "gpujob", "(.+)"))
or
group by (namespace, pod, job) (
  label_replace(kube_pod_labels{label_gpujob_dev_job!=""}, "job", "$1", "label_gpujob_dev_job", "(.+)")
)
"""
"""From the targets of the PodMonitor, which are there before a reporter answers; or from kube-state-metrics, where it shows
the label gpujob.dev/job."""

_POWER: Final = " or ".join(
    f"{_amd_whole(name)} > 0" for name in ("gpu_package_power", "gpu_average_package_power", "gpu_power_usage")
)
"""MI3xx has the first, MI2xx and Radeon the second."""

XIDS_OF_PROGRAMS: Final = (13, 31, 43, 45)
"""XID errors that a program brings on itself, by NVIDIA's catalogue of XID errors: the device is well."""

_NO_FAULT: Final = " + ".join(f"(DCGM_FI_DEV_XID_ERRORS == bool {xid})" for xid in (0, *XIDS_OF_PROGRAMS))
"""The last XID error, which stays until the exporter restarts, is none or a program's own."""

DEVICES: Final = Group(
    "gpujob-devices",
    [
        Record(POD_INFO, _POD_INFO),
        Record(
            "gpujob:device_utilization:ratio",
            _of_jobs(
                'DCGM_FI_DEV_GPU_UTIL{GPU_I_ID=""} / 100 or DCGM_FI_PROF_GR_ENGINE_ACTIVE',
                f"{_amd_whole('gpu_gfx_activity')} / 100",
            ),
        ),
        Record(
            "gpujob:device_memory_used:bytes",
            _of_jobs(f"DCGM_FI_DEV_FB_USED * {MIB}", f"{_amd('gpu_used_vram')} * {MIB}"),
        ),
        Record(
            "gpujob:device_memory_total:bytes",
            _of_jobs(
                "(DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE"
                f" + (DCGM_FI_DEV_FB_RESERVED or DCGM_FI_DEV_FB_FREE * 0)) * {MIB}",
                f"{_amd('gpu_total_vram')} * {MIB}",
            ),
        ),
        Record("gpujob:device_power:watts", _of_jobs(f"{_unshared('DCGM_FI_DEV_POWER_USAGE')} < 1e5", _POWER)),
        Record(
            "gpujob:device_temperature:celsius",
            # DCGM writes numbers near 2^63 for what a device does not report.
            _of_jobs(
                "DCGM_FI_DEV_GPU_TEMP < 1000",
                f"{_amd('gpu_junction_temperature')} > 0 or {_amd('gpu_edge_temperature')} > 0",
            ),
        ),
        Record(
            "gpujob:device_energy_joules_total",
            _of_jobs(
                f"{_unshared('DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION')} / 1e3",
                f"{_amd_whole('gpu_energy_consumed')} / 1e6",
            ),
        ),
        _ecc("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "gpu_ecc_correct_total", "correctable"),
        _ecc(
            "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL or DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
            "gpu_ecc_uncorrect_total",
            "uncorrectable",
        ),
        Record("gpujob:device_xid:code", _of_jobs("DCGM_FI_DEV_XID_ERRORS")),
        Record("gpujob:device_healthy:bool", _of_jobs(_NO_FAULT, f"{_amd('gpu_health')} > bool 0")),
    ],
)
