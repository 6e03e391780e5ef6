"""How NVIDIA's and AMD's plugins and labellers describe devices."""
