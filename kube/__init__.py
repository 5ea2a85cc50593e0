"""Kubernetes' vocabulary, pure: names, quantities, objects, scheduling terms and their matching."""
