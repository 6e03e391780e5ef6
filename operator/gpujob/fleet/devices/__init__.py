"""Groups of devices on nodes, from extended resources and from resource slices."""
