"""The manifests of users and admins: GPUJob, GPUPool and GPURuntime as models, their CRDs, and the parser."""
