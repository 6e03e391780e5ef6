"""The kinds of the API as pydantic models: GPUJob, GPUPool, GPURuntime, GPUJobProfile."""
