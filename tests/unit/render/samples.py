"""Jobs with the choices that were made for them: what the tests of rendering render.

Pools and choices are written by hand, so that these tests say nothing about the catalog or about placement.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from gpujob.api.kinds.gpujob import GPUJob
from gpujob.catalog.entities import Accelerator
from gpujob.fleet.dra.claim_request import DeviceRequest
from gpujob.fleet.gpupools.selection import Fabric
from gpujob.fleet.kubernetes.objects import HOST_DEVICES, Resources
from gpujob.fleet.labels.device_fraction import Portion
from gpujob.fleet.pools.pool import Pool
from gpujob.fleet.pools.pricing import PoolPrice
from gpujob.placement.images.image import ImageChoice
from gpujob.placement.request.gang import Gang
from gpujob.placement.scoring.candidate import Candidate, Choice
from gpujob.render.children import Children, render
from gpujob.render.runner import Runner
from gpujob.values.quantity import GI
from gpujob.values.vocabulary import Backend, CapacityType, DeviceKind, Outcome, Vendor

UID: Final = "6f1c1f0e-52a4-4f6c-9d3b-0a8d2f3f7a11"

MI300X: Final = Pool(
    name="mi300x-nd96isr-ondemand",
    discovered=True,
    vendor=Vendor.AMD,
    resource="amd.com/gpu",
    accelerator=Accelerator("MI300X", "AMD Instinct MI300X", Vendor.AMD, "gfx942"),
    memory=191 * GI,
    driver="6.12.12",
    cpu_architecture="amd64",
    instance_type="Standard_ND96isr_MI300X_v5",
    region="westeurope",
    capacity_type=CapacityType.ON_DEMAND,
    price=PoolPrice(2_100_000, "GPUPool mi300x"),
    nodes=(),
    supplemental_groups=(44, 109),
)
H100: Final = Pool(
    name="h100-sxm-reserved",
    discovered=False,
    vendor=Vendor.NVIDIA,
    resource="nvidia.com/gpu",
    accelerator=Accelerator("H100-SXM", "NVIDIA H100 SXM 80GB", Vendor.NVIDIA, "9.0"),
    memory=79 * GI,
    driver="580.95",
    cpu_architecture="amd64",
    instance_type="",
    region="",
    capacity_type=CapacityType.RESERVED,
    price=None,
    nodes=(),
)
FABRIC: Final = Fabric(
    resources=(("rdma/hca", 1),),
    lock_memory=True,
    annotations=(("k8s.v1.cni.cncf.io/networks", "rail-a,rail-b"),),
    host_network=True,
    topology_key="example.com/leaf",
)
ROCM_IMAGE: Final = ImageChoice("pytorch-rocm", "registry.example/pytorch-rocm:2.10", Backend.ROCM)
CUDA_IMAGE: Final = ImageChoice("pytorch-cuda", "registry.example/pytorch-cuda:2.10", Backend.CUDA)


RUNNER: Final = Runner({"gpujob_runner/__init__.py": '"""Empty."""', "gpujob_runner/onpath/sitecustomize.py": ""})


@dataclass(frozen=True)
class Sample:
    """A job, its choice, and the RuntimeClasses of the cluster."""

    job: GPUJob
    choice: Choice
    runtime_classes: frozenset[str] = frozenset()
    attempt: int = 1
    runner: Runner | None = RUNNER

    def children(self) -> Children:
        """What is rendered for it."""
        return render(self.job, self.choice, self.attempt, self.runtime_classes, "5d1f0c2ab3e94870", runner=self.runner)


def job_of(name: str = "llama", uid: str = UID, namespace: str = "research", **spec: Any) -> GPUJob:
    """A job as the API server hands it out."""
    metadata = {"name": name, "namespace": namespace, "uid": uid}
    return GPUJob.model_validate({"metadata": metadata, "spec": spec})


def choice_of(
    pool: Pool,
    *nodes: str,
    image: ImageChoice | None = None,
    needs: Resources = Resources(12_000, 230 * GI, 20 * GI, 1),  # noqa: B008 (frozen)
    tolerations: tuple[tuple[str, str], ...] = (),
    shared_memory: int = 57 * GI,
    price_per_hour: int | None = None,
    gpus: int = 1,
    entry: int | None = None,
) -> Choice:
    """The choice of these nodes of a pool, with `gpus` of each, by that entry of the job's shapes."""
    gang = Gang(len(nodes), gpus, entry=entry)
    runtime = image or (ROCM_IMAGE if pool.vendor is Vendor.AMD else CUDA_IMAGE)
    candidate = Candidate(pool, runtime, gang, Outcome.CHOSEN, price_per_hour=price_per_hour)
    return Choice(candidate, nodes, needs, shared_memory, tolerations)


SAMPLES: Final = {
    "single-amd": Sample(
        job_of(
            command=["torchrun", "train.py"],
            args=["--epochs", "3"],
            securityContext={"supplementalGroups": [2000, 44]},
            imagePullSecrets=[{"name": "registry"}],
        ),
        choice_of(
            MI300X,
            "mi300x-0",
            tolerations=(("amd.com/gpu", "NoSchedule"),),
            price_per_hour=2_100_000,
        ),
    ),
    "single-nvidia": Sample(job_of(command=["python", "train.py"]), choice_of(H100, "h100-3")),
    "single-nvidia-runtime-class": Sample(
        job_of(command=["python", "train.py"], terminationGracePeriodSeconds=120),
        choice_of(H100, "h100-3", tolerations=(("nvidia.com/gpu", "NoSchedule"),)),
        frozenset({"nvidia", "gvisor"}),
    ),
    "gang-amd-code": Sample(
        job_of(
            name="llama-3.1-finetune",
            nodes=2,
            gpusPerNode=8,
            command=["torchrun", "train.py", "--attempt", "$(GPUJOB_ATTEMPT)"],
            code={"configMap": {"name": "llama-code"}},
            volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "imagenet", "readOnly": True}}],
            volumeMounts=[{"name": "data", "mountPath": "/data", "readOnly": True}],
            envFrom=[{"secretRef": {"name": "tracking"}, "prefix": "TRACKING_"}],
        ),
        choice_of(
            MI300X,
            "mi300x-0",
            "mi300x-1",
            needs=Resources(86_000, 1_600 * GI, 20 * GI, 1),
            shared_memory=64 * GI,
            price_per_hour=33_600_000,
            gpus=8,
        ),
        attempt=2,
    ),
    "gang-nvidia-one-gpu-each": Sample(
        job_of(
            nodes=3,
            command=["python", "train.py"],
            code={"persistentVolumeClaim": {"claimName": "home", "subPath": "projects/llama"}},
        ),
        choice_of(H100, "h100-1", "h100-2", "h100-3"),
    ),
    "code-of-an-image": Sample(
        job_of(
            command=["python", "train.py"],
            code={"image": {"reference": "team.example/code:3", "pullPolicy": "Always"}},
            volumes=[{"name": "weights", "image": {"reference": "team.example/weights:1"}}],
            volumeMounts=[{"name": "weights", "mountPath": "/weights"}],
        ),
        choice_of(MI300X, "mi300x-0"),
    ),
    "own-images": Sample(
        job_of(
            gpusPerNode=2,
            images={"cuda": {"image": "team.example/train:cuda"}, "rocm": {"image": "team.example/train:rocm"}},
            env=[
                {"name": "NCCL_DEBUG", "value": "WARN"},
                {"name": "RUN", "value": "$(GPUJOB_NAME)-$(GPUJOB_ATTEMPT)"},
                {"name": "OMP_NUM_THREADS", "value": "2"},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
            ],
            envByBackend={
                "cuda": [{"name": "NCCL_ALGO", "value": "NVLS"}],
                "rocm": [{"name": "NCCL_DEBUG", "value": "INFO"}, {"name": "HSA_XNACK", "value": "1"}],
            },
        ),
        choice_of(
            replace(MI300X, env=({"name": "NCCL_IB_HCA", "value": "mlx5"}, {"name": "RUN", "value": "pool"})),
            "mi300x-0",
            image=ImageChoice("own", "team.example/train:rocm", Backend.ROCM),
            gpus=2,
        ),
    ),
    "warned-and-measured": Sample(
        job_of(
            command=["bash", "-c", "python train.py"],
            preflight="Warn",
            telemetry={"port": 9500, "samplesPerStep": 512, "tokensPerStep": 4194304},
            env=[{"name": "PYTHONPATH", "valueFrom": {"configMapKeyRef": {"name": "paths", "key": "python"}}}],
            gpuMemory="80G",
        ),
        choice_of(H100, "h100-3"),
    ),
    "unchecked-and-measured": Sample(
        job_of(command=["python", "train.py"], preflight="Disabled", telemetry={}), choice_of(H100, "h100-3")
    ),
    "unchecked": Sample(job_of(command=["python", "train.py"], preflight="Disabled"), choice_of(MI300X, "mi300x-0")),
    "an-image-without-python": Sample(job_of(command=["/train"]), choice_of(H100, "h100-3"), attempt=2, runner=None),
    "as-root": Sample(
        job_of(command=["python", "train.py"], securityContext={"runAsUser": 0, "runAsGroup": 0}),
        choice_of(MI300X, "mi300x-0"),
    ),
    "spot": Sample(
        job_of(command=["python", "train.py"], placement={"capacityTypes": ["Spot"]}),
        choice_of(
            replace(H100, name="h100-sxm-spot", capacity_type=CapacityType.SPOT),
            "h100-9",
            needs=Resources(3_600, 7 * GI + GI // 2, None, 1),
            tolerations=(("cloud.google.com/gke-spot", "NoSchedule"), ("nvidia.com/gpu", "NoSchedule")),
        ),
    ),
    "read-only-own-shared-memory": Sample(
        job_of(
            command=["python", "train.py"],
            workingDir="/opt/app",
            securityContext={"runAsUser": 4000, "runAsGroup": 4000, "fsGroup": 4001, "readOnlyRootFilesystem": True},
            volumes=[{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}],
            volumeMounts=[{"name": "shm", "mountPath": "/dev/shm/"}],
            podMetadata={
                "labels": {"team": "vision", "sidecar.istio.io/inject": "true"},
                "annotations": {"linkerd.io/inject": "enabled", "karpenter.sh/do-not-disrupt": "false"},
            },
        ),
        choice_of(H100, "h100-3"),
    ),
    "long-name": Sample(
        job_of(name="7b." + "a" * 38 + ".bbbbbbbb.cccccccccccccccccc", nodes=2),
        choice_of(MI300X, "mi300x-0", "mi300x-1"),
        attempt=12,
    ),
    "one-of-two-shapes": Sample(
        job_of(
            command=["torchrun", "train.py"],
            args=["--batch", "8"],
            env=[{"name": "BATCH", "value": "8"}, {"name": "RUN", "value": "a"}],
            shapes=[
                {"accelerator": "MI300X", "env": [{"name": "BATCH", "value": "16"}]},
                {"nodes": 2, "gpusPerNode": 4, "env": [{"name": "BATCH", "value": "2"}], "args": ["--batch", "2"]},
            ],
        ),
        choice_of(H100, "h100-0", "h100-1", gpus=4, entry=1),
    ),
    "partitions-amd": Sample(
        job_of(command=["torchrun", "train.py"], placement={"devices": ["Whole", "Partition"]}),
        choice_of(
            replace(
                MI300X,
                name="mi300x-cpx-nps4-ondemand",
                resource="amd.com/cpx_nps4",
                memory=24 * GI,
                portion=Portion(DeviceKind.PARTITION, "cpx_nps4", 8),
                share=(1, 8),
            ),
            "mi300x-7",
            gpus=4,
        ),
    ),
    "claimed-nvidia": Sample(
        job_of(command=["python", "train.py"]),
        choice_of(
            replace(
                H100,
                resource="gpu.nvidia.com/gpu",
                request=DeviceRequest("resource.k8s.io/v1", "gpu.nvidia.com", ('device.driver == "x"',)),
            ),
            "h100-4",
            gpus=2,
        ),
        frozenset({"nvidia"}),
    ),
    "claimed-amd-gang-v1beta1": Sample(
        job_of(command=["torchrun", "train.py"]),
        choice_of(
            replace(
                MI300X,
                resource="gpu.amd.com/amdgpu",
                request=DeviceRequest("resource.k8s.io/v1beta1", "gpu.amd.com"),
            ),
            "mi300x-0",
            "mi300x-1",
            gpus=8,
        ),
    ),
    "slice-nvidia": Sample(
        job_of(command=["python", "train.py"], placement={"devices": ["Partition"]}),
        choice_of(
            replace(
                H100,
                name="h100-sxm-1g-10gb-reserved",
                resource="nvidia.com/mig-1g.10gb",
                memory=9 * GI,
                portion=Portion(DeviceKind.PARTITION, "1g.10gb", None),
                share=(1, 7),
            ),
            "h100-4",
            needs=Resources(2_000, 32 * GI, 20 * GI, 1),
        ),
        frozenset({"nvidia"}),
    ),
    "host-devices-amd": Sample(
        job_of(command=["torchrun", "train.py"]),
        choice_of(replace(MI300X, resource=HOST_DEVICES, host_devices=True), "mi300x-0", gpus=8),
    ),
    "host-devices-nvidia-gang": Sample(
        job_of(command=["torchrun", "train.py"], volumes=[{"name": "gpujob-nvidia0", "emptyDir": {}}]),
        choice_of(replace(H100, resource="nvidia.com/gpu", host_devices=True), "h100-0", "h100-1", gpus=2),
        frozenset({"nvidia"}),
    ),
    "fabric-gang": Sample(
        job_of(
            command=["torchrun", "train.py"],
            podMetadata={"annotations": {"k8s.v1.cni.cncf.io/networks": "mine", "team": "a"}},
        ),
        choice_of(replace(H100, fabric=FABRIC), "h100-0", "h100-1", gpus=8),
    ),
    "fabric-single": Sample(
        job_of(command=["torchrun", "train.py"]), choice_of(replace(H100, fabric=FABRIC), "h100-0", gpus=8)
    ),
}
