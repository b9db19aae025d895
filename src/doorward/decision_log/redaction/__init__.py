"""What must not stand in a log or on a page: masks, credentials, texts of secrets."""
