"""Who speaks when: pure functions from speech segments to latency, overlap and interaction events."""
