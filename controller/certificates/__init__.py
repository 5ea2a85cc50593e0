"""CA and serving certificates, issued and renewed in Secrets by the leader.

`loop` carries out what certs.rotation decides, on what `store` reads and writes; `delivery` brings a new
leaf to running pods, `expiry` warns where nobody renews, `metrics` counts.
"""
