"""TODO-OWNER."""
