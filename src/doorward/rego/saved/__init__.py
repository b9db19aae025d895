"""Checked programs kept on disk, so that policies that did not change are not compiled again."""
