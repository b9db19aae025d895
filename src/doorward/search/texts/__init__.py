"""Conditions on one text: the texts that fulfil all of them, and whether there is one.

`conditions.py` reads an expression as a language of the texts that it accepts; `languages.py`
intersects them. The refuter asks whether the intersection is empty, the search for a text in it.
"""
