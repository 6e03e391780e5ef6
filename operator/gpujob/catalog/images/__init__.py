"""Container images with a framework: versions, architectures, consistency of their facts.

Reading order: `runtime` (an image's facts), `from_spec` (from a GPURuntime), `unreadable`, `versions`, `stacks` (drivers that
CUDA and ROCm need), `consistency` (facts that contradict each other), `mirrors`.
"""
