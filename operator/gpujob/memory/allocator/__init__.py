"""What PyTorch's CUDA caching allocator adds to the bytes of tensors: segments, block reuse, fragmentation."""
