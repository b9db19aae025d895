"""The configuration of the decision point: its keys, their bounds, and what each of them means."""
