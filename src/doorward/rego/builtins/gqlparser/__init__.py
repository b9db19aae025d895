"""GraphQL documents as the Go library of this name has them: its objects and its errors."""
