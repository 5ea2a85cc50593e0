"""What a policy says: the fields that an admin writes, and the values that a pod gets."""
