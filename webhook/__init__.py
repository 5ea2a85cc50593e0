"""AdmissionReview in, JSON Patch or one-line denial out."""
