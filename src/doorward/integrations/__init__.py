"""Enforcement inside applications: a framework's request becomes the same `input` as the sidecar's.

    framework's request -> HttpRequest -> `enforcement.check` -> Verdict -> framework's answer

A module is imported by its name, such as `doorward.integrations.fastapi`, and imports its
framework; `asgi` and `wsgi` import none.
"""
