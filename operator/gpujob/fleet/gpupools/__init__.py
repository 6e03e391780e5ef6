"""What an admin's GPUPool selects, costs and requires of the network."""
