"""What becomes of a labelled pod: pure functions from pod, policy and placement to patch or denial."""
