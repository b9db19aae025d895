"""The sender of requests of `http.send`, and the responses that outlive a decision."""
