"""Every test; the folders mirror the packages."""
