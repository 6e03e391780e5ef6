"""The labels and resources of NVIDIA's and AMD's plugins and labellers."""
