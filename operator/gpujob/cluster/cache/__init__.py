"""List and watch of each kind into memory: reflector, object cache, kind store."""
