"""What admins steer: the policy model, its loader, the default policy and the limiter presets."""
