"""Certificates: CA and leaf making, validation, and TLS contexts that change while they serve.

The time comes in as an aware datetime; the mounted certificate alone reads the clock. Only it, the watcher,
the CA file and the live context touch files or sockets. A server loads nothing that makes or checks
certificates: see certs.apart.
"""
