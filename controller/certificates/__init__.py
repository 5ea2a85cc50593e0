"""The CA and the serving certificates, made and renewed in Secrets."""
