"""Registries of images, as container runtimes ask them: what a tag is today, and for which CPUs.

Reading order: `reference` (the parts of an image's name), `client` (HTTP, and the logins that a registry asks for) with
`credentials` (what the user has for it), `manifests` (what an answer says), `pins` (GPURuntimes with digests).
"""
