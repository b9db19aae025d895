"""JSON pointers: what json.filter and json.remove select, what json.patch edits."""
