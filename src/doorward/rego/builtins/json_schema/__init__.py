"""JSON Schema in the words of the library that OPA uses: read, and matched with documents."""
