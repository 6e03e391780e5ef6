"""The kinds of the API as pydantic models: GPUJob, GPUPool, GPURuntime, GPUJobProfile.

Reading order: `gpujob` (the user's spec) with `pods` and `model` (its parts), `gpujob_status` with `measured` (the figures of
its run) and `conditions`; `gpupool`, `gpuruntime`, `gpujobprofile`.
"""
