"""The reading page, served on loopback."""
