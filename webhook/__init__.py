"""From an AdmissionReview to a JSON Patch or a one-line denial."""
