"""Types that fields share: amounts, patterns and the base model.

Reading order: `base` (the base model and common types), `patterns` (forms of texts), `amounts` (memory, CPU, money).
"""
