"""What users and admins write: GPUJob, GPUPool and GPURuntime as models, their CRDs, and the reading of manifests."""
