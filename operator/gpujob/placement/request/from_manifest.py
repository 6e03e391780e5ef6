"""The demand of a GPUJob: every field of its spec with its default, as the placement reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpujob.catalog.devices.architecture import OVERRIDE
from gpujob.catalog.devices.throughput import TRAINING, Work, work_of
from gpujob.placement.request.demand import (
    DEFAULT_CAPACITY_TYPES,
    DEFAULT_DEVICES,
    DEFAULT_FRAMEWORK,
    Demand,
    OwnRuntime,
)
from gpujob.placement.request.gang import Gang
from gpujob.placement.request.launch import programs_of
from gpujob.placement.request.model_requirements import model_demand, precision_of
from gpujob.placement.request.written import amounts_written
from gpujob.values.quantity import parse_bytes, parse_dollars, parse_millicores
from gpujob.values.vocabulary import Backend, CapacityType, DeviceKind, Method, Objective, Precision, Vendor

if TYPE_CHECKING:  # late import: the models would be half of the start time of commands that read no job
    from gpujob.api.kinds.gpujob import GPUJob, GPUJobSpec, OwnImage
    from gpujob.api.kinds.model import Model


def demand_of(job: GPUJob) -> Demand:
    """The demand of a job that passed its schema."""
    spec = job.spec
    placement, resources, framework = spec.placement, spec.resources, spec.framework
    accelerators = placement and placement.accelerators
    pools = placement and placement.pools
    types = placement.capacity_types if placement else ()
    return Demand(
        gangs=_gangs(spec),
        gpu_memory=_bytes(spec.gpu_memory),
        model=model_demand(spec.model) if spec.model else None,
        sized_by_model=spec.model is not None and spec.gpus_per_node is None and not spec.shapes,
        nodes_given=spec.nodes is not None,
        work=_work(spec.model) if spec.model else TRAINING,
        vendors=frozenset(Vendor(v) for v in placement.vendors)
        if placement and placement.vendors
        else frozenset(Vendor),
        accelerators_allowed=accelerators.allow if accelerators else (),
        accelerators_denied=accelerators.deny if accelerators else (),
        pools_allowed=pools.allow if pools else (),
        pools_denied=pools.deny if pools else (),
        capacity_types=tuple(sorted(CapacityType(t) for t in types)) if types else DEFAULT_CAPACITY_TYPES,
        devices=_devices(spec),
        max_price=parse_dollars(placement.max_price_per_hour) if placement and placement.max_price_per_hour else None,
        budgeted=placement is not None and placement.budget is not None,
        objective=_objective(spec),
        objective_given=bool(placement and placement.objective),
        framework=framework.name.lower() if framework else DEFAULT_FRAMEWORK,
        framework_version=framework.version if framework else None,
        python=framework.python if framework else None,
        requires=tuple(sorted(set(spec.requires))),
        own_images=_own_images(spec),
        millicores=parse_millicores(resources.cpu) if resources and resources.cpu else None,
        memory=_bytes(resources.memory) if resources else None,
        storage=_bytes(resources.ephemeral_storage) if resources else None,
        written=amounts_written(spec),
        watches_steps=spec.stall is not None,
        own_command=bool(spec.command or spec.args or spec.images),
        programs=programs_of(spec),
        repeated=_repeated(_gangs(spec)),
        shared_memory=_bytes(resources.shared_memory) if resources else None,
        wait_seconds=(placement and placement.wait_seconds) or 0,
        exploration=parse_dollars(placement.exploration) if placement and placement.exploration else None,
        probe_steps=placement.probe.steps if placement and placement.probe else None,
        precision=Precision(spec.model.precision) if spec.model and spec.model.precision else None,
        gfx_override=_gfx_override(spec),
        image_volumes=bool(spec.code and spec.code.image) or any(volume.image for volume in spec.volumes),
        priority_class=spec.priority_class_name,
        service_account=spec.service_account_name,
        claims=_claims(spec),
        run_as=(spec.security_context.run_as_user, spec.security_context.fs_group)
        if spec.security_context
        else (None, None),
        new_claims=_new_claims(spec),
        claim_volumes=tuple(index for index, volume in enumerate(spec.volumes) if volume.ephemeral),
        copies_code=spec.code is not None,
        keeps_vendor=spec.checkpoint is not None and spec.checkpoint.resume_on != "AnyVendor",
        as_root=bool(spec.security_context and spec.security_context.run_as_user == 0),
    )


def _claims(spec: GPUJobSpec) -> tuple[str, ...]:
    named = [each.persistent_volume_claim.claim_name for each in spec.volumes if each.persistent_volume_claim]
    code = spec.code and spec.code.persistent_volume_claim
    return tuple(sorted({*named, *([code.claim_name] if code else ())}))


def _new_claims(spec: GPUJobSpec) -> tuple[tuple[str, int], ...]:
    """The volume claims that each pod creates."""
    templates = [volume.ephemeral.volume_claim_template.spec for volume in spec.volumes if volume.ephemeral]
    return tuple(
        (each.storage_class_name or "", _bytes(each.resources.requests.get("storage")) or 0) for each in templates
    )


def _gangs(spec: GPUJobSpec) -> tuple[Gang, ...]:
    if not spec.shapes:
        return (Gang(spec.nodes or 1, spec.gpus_per_node or 1),)
    shapes = enumerate(spec.shapes)
    return tuple(Gang(each.nodes or 1, each.gpus_per_node or 1, each.accelerator, index) for index, each in shapes)


def _repeated(gangs: tuple[Gang, ...]) -> tuple[tuple[int, int], ...]:
    kinds = [(each.shape, each.accelerator) for each in gangs]
    return tuple((at, first) for at, kind in enumerate(kinds) if (first := kinds.index(kind)) < at)


def _objective(spec: GPUJobSpec) -> Objective:
    """The job's objective. Without one: Value if the speed of its work is known (a model, earlier runs of its profile, its own
    probes), else Cost.
    """
    placement = spec.placement
    if placement and placement.objective:
        return Objective(placement.objective)
    known = spec.model or spec.profile or (placement and placement.probe)
    return Objective.VALUE if known else Objective.COST


def _work(model: Model) -> Work:
    """What the job does with its GPUs, for the lookup of its speed."""
    load = model.inference
    sequences = (load and load.concurrency) or model.batch_per_gpu
    return work_of(Method(model.method or Method.FULL), precision_of(model), sequences)


def _devices(spec: GPUJobSpec) -> tuple[DeviceKind, ...]:
    kinds = spec.placement.devices if spec.placement else ()
    return tuple(sorted(DeviceKind(kind) for kind in kinds)) if kinds else DEFAULT_DEVICES


def _gfx_override(spec: GPUJobSpec) -> str | None:
    rocm = spec.env_by_backend.rocm if spec.env_by_backend else ()
    values = [variable.value or "" for variable in (*spec.env, *rocm) if variable.name == OVERRIDE]
    return values[-1] if values else None


def _bytes(text: str | None) -> int | None:
    return parse_bytes(text) if text else None


def _own_images(spec: GPUJobSpec) -> tuple[OwnRuntime, ...]:
    if spec.images is None:
        return ()
    pairs: tuple[tuple[Backend, OwnImage | None], ...] = (
        (Backend.CUDA, spec.images.cuda),
        (Backend.ROCM, spec.images.rocm),
    )
    return tuple(OwnRuntime(backend, own.image, own.runtime) for backend, own in pairs if own is not None)
