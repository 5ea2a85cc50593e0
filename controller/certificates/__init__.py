"""CA and serving certificates, which the leader issues and renews in Secrets.

`loop` carries out what certs.rotation decides, with `store` to read and write, and `metrics` counts.
"""
