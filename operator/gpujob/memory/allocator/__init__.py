"""The overhead of PyTorch's CUDA caching allocator beyond the bytes of tensors: segments, block reuse, fragmentation."""
