"""What sends the requests of `http.send`, and the responses that outlive a decision."""
