"""The model of policies: the fields that an admin writes, and the values that a pod gets."""
