"""The labels and resources of NVIDIA's and AMD's plugins and labellers.

Reading order: `nvidia` with `nvidia_driver` and `nvidia_sharing`; `amd` with `amd_labels`, `amd_partitions` and `amd_hosts`;
`invalid_labels` (figures that cannot be read).
"""
