"""The rules: they check labelled pods and write patches."""
