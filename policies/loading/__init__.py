"""From policy files to a checked set of policies."""
