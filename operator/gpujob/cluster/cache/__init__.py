"""List and watch of each kind into memory: reflector, object cache, kind store.

Reading order: `watched_kinds` (what is watched), `reflector` (list and watch), `object_cache` (all kinds) over `kind_store`
(one kind), `object_key`.
"""
