"""What requests to a real daemon really do, against what the policy was shown of them.

    python -m tests.docker.effects --minutes 10 --seed 1

`schema` reads the fields of the engine API from Docker's own description, `spellings` fills them,
`observe` looks at what came of it from the outside, `check` holds the property: whatever reaches
the host is denied to a developer by the shipped policies.
"""
