"""What a policy says: its fields, and what they come to for a pod."""
