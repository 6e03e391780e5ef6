"""Plans jobs against a fleet, one or several at once."""
