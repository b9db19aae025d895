"""The part that adapters share: an HTTP request becomes the input, a policy's result a verdict."""
