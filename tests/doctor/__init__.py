"""The doctor's checks over objects that are already read."""
