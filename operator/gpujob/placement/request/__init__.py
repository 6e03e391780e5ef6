"""What a job demands: its gang, its model's requirements, its profile's measurements.

Reading order: `demand` (a job with every default) and `from_manifest` (made of a GPUJob), `gang`, `model_requirements`,
`written` (amounts as written), `shell_script` (the commands of a command line), `other_launchers` (options beside
torchrun's) and `launch` (what they set for GPUs); `profile_measurements`.
"""
