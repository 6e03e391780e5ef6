"""The memory that a model's work takes on each GPU: from a Workload to an Estimate in bytes.

Placement estimates jobs that name a `model` in place of a `gpuMemory`. The peak of a training step is one of a few phases (the
loss, the recomputed layer, the gradient of the embedding, the optimizer); each is computed from the model's dimensions, and the
largest is the expected peak. No figure belongs to a model: every constant is a property of PyTorch, documented where it is
defined, and compared with measurements by `python -m bench.memory`.

Reading order: `workload` (the request), `model_states` (weights, gradients, optimizer, adapters), `activations` (what a layer
keeps for its backward pass), `deepspeed` (its buffers), `segment_padding` (what tensors take beyond their size), `phases`,
`training` and `serving` (the phases of a step), `allocator` (what the device must have beyond the peak), `estimate` (all
together), `model_shape` (from a name or a size to a model's dimensions), `recipe` (bytes a parameter in words).
"""
