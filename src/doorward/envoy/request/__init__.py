"""CheckRequest bytes become the policy's `input`, or the reason why they do not."""
