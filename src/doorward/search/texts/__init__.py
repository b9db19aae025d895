"""Conditions on one text: the language of the texts that fulfil all of them.

`conditions.py` reads an expression as the language of the texts that it accepts; `languages.py`
intersects languages. The refuter tests if the intersection is empty, the search takes a text of it.
"""
