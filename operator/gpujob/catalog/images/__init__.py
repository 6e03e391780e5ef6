"""Container images with a framework: versions, architectures, consistency of their facts.

Reading order: `runtime` (an image's facts, and the drivers that CUDA and ROCm need), `from_spec` (from a GPURuntime), `versions`,
`consistency` (facts that contradict each other), `mirrors`.
"""
