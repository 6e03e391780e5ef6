"""Types that fields share: amounts, patterns, version ranges and the base model."""
