"""How much memory a model's work takes on each GPU: a Workload goes in, an Estimate in bytes comes out.

Placement asks it for jobs that name a `model` instead of a `gpuMemory`. A training step is a few moments that can be
its peak (the loss, the recomputed layer, the gradient of the embedding, the optimizer); each is counted from the
model's shape, and the largest is what is expected. No figure belongs to a model: every constant is a property of
PyTorch, named where it stands, and held against measurements by `python -m bench.memory`.

Reading order: `workload` (the request), `model_states` (weights, gradients, optimizer, adapters), `activations` (what a layer keeps
for its backward pass), `deepspeed` (its buffers), `training` and `serving` (the phases), `allocator` (what the device must have beyond
the peak), `estimate` (all together), `model_shape` (from a name or a size to a model's shape), `recipe` (bytes a parameter in words).
"""
