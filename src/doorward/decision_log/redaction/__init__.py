"""Redaction of logs and pages: masks, credentials, texts of secrets."""
