"""The functions that generated code may call, and the state of one evaluation. `exports` is the one
list."""
