"""The rules: what is checked of a labelled pod, and what is written into it."""
