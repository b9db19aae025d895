"""The pages in a real browser: nothing in a decision or a policy runs, and all can use them.

A package, as far as pytest is concerned: its tests share a browser, which is closed behind the last
one of them.
"""
