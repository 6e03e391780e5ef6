"""The rules of GPURuntime."""

from __future__ import annotations

from typing import Final

from gpujob.api.kinds.gpuruntime import GPURuntimeSpec
from gpujob.api.validation.rule import Rule


def _right_architectures(value: GPURuntimeSpec) -> bool:
    gfx = [architecture.startswith("gfx") for architecture in value.architectures]
    return bool(gfx) and (all(gfx) if value.backend == "ROCm" else not any(gfx))


def _right_build(value: GPURuntimeSpec) -> bool:
    other = "+cu" if value.backend == "ROCm" else "+rocm"
    return other not in value.framework.version


RULES: Final[tuple[Rule, ...]] = (
    # The parser reads a spec after the facts of its row were added, and then misses each field by its name.
    Rule(GPURuntimeSpec, "", "a GPURuntime without extends needs image, backend, backendVersion, framework and architectures",
         "has(self.extends) || (has(self.image) && has(self.backend) && has(self.backendVersion) && has(self.framework) && "
         "has(self.architectures))",
         lambda value: True),
    Rule(GPURuntimeSpec, "architectures", "architectures must be gfx names for ROCm, compute capabilities for CUDA, at least one",
         "!has(self.architectures) || !has(self.backend) || "
         "size(self.architectures) > 0 && self.architectures.all(a, a.startsWith('gfx') == (self.backend == 'ROCm'))",
         _right_architectures),
    Rule(GPURuntimeSpec, "framework", "framework.version is a build for the other backend (+cu on ROCm, +rocm on CUDA)",
         "!has(self.framework) || !has(self.backend) || "
         "!self.framework.version.contains(self.backend == 'ROCm' ? '+cu' : '+rocm')", _right_build),
    Rule(GPURuntimeSpec, "driverWindow", "driverWindow is of the amdgpu module, for ROCm only; write minDriver",
         "!has(self.driverWindow) || !has(self.backend) || self.backend == 'ROCm'",
         lambda value: value.driver_window is None or value.backend == "ROCm"),
)  # fmt: skip
