"""A deployment's files become findings: what is not hardened, where, and why it matters.

    paths -> `check_files` -> findings -> `write_report` -> text, JSON, SARIF

Envoy configurations, policies, decision point configurations, Kubernetes manifests (with what their
ConfigMaps hold), Compose projects and systemd units, ours and others'. One file knows one kind of
thing; nothing here changes a file or asks a network.
"""

from __future__ import annotations

from doorward.envoy.lint.files import Checked, LintError, check_files, check_paths
from doorward.envoy.lint.finding import RULES, Finding
from doorward.envoy.lint.report import FORMATS, write_report

__all__ = [
    "FORMATS",
    "RULES",
    "Checked",
    "Finding",
    "LintError",
    "check_files",
    "check_paths",
    "write_report",
]
