"""What a job demands: its gang, its model's requirements, its profile's measurements."""
