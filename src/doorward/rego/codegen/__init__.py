"""Programs to Python: `ast` nodes with Rego's positions, compiled under the policy's file name."""
