"""Policies as text and trees: for those who check, format, lint, cover or edit them.

Part of the façade, see `doorward.rego`. What evaluates policies needs nothing of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from doorward.base.exporting import exporter as _exporter

if TYPE_CHECKING:
    from doorward.rego.all_diagnostics import find_errors
    from doorward.rego.analysis.documents import Documents, Path
    from doorward.rego.analysis.hints import near_name
    from doorward.rego.analysis.passes import CheckOptions, check, report
    from doorward.rego.analysis.required import required_builtins
    from doorward.rego.analysis.resolve import (
        Resolver,
        import_name,
        names_of_packages,
        resolve_modules,
    )
    from doorward.rego.analysis.tree import Definition, RuleNode, check_base_data, path_text
    from doorward.rego.builtins.inversion.inverses import variants, witnesses
    from doorward.rego.builtins.inversion.witnesses import glob_witnesses, regex_witnesses
    from doorward.rego.builtins.registry import Builtin
    from doorward.rego.builtins.registry.declarations import to_declaration
    from doorward.rego.builtins.registry.signature import kinds, signature_text, type_text
    from doorward.rego.capabilities import FEATURES, V0_FEATURES, WASM_ABI_VERSIONS, future_keywords
    from doorward.rego.clock import count_step
    from doorward.rego.errors import Details
    from doorward.rego.explanation.recorder import Attempt, Step, Tried
    from doorward.rego.explanation.secrets import without_secrets
    from doorward.rego.partial.data_use import DataMember, DataUse
    from doorward.rego.partial.paths import parse_path, path_names
    from doorward.rego.pointers import read_name, read_patch_path
    from doorward.rego.saved.folder import SavedFolder
    from doorward.rego.saved.keys import key_of, name_of
    from doorward.rego.saved.programs import SavedPrograms
    from doorward.rego.syntax.format import (
        Target,
        format_module,
        format_policy,
        format_source,
        format_tree,
    )
    from doorward.rego.syntax.keywords import KEYWORDS, ROOTS, V1_KEYWORDS
    from doorward.rego.syntax.lexer import BRACKETS, EOF, IDENT, Lexer, Token, loose_tokens
    from doorward.rego.syntax.nodes import (
        And,
        Annotations,
        Array,
        ArrayComprehension,
        Body,
        Call,
        Every,
        Expr,
        Head,
        Import,
        Module,
        Not,
        Object,
        ObjectComprehension,
        Or,
        Package,
        Ref,
        Rule,
        Scalar,
        Set,
        SetComprehension,
        SomeDecl,
        SomeIn,
        TemplateString,
        Term,
        Var,
        With,
    )
    from doorward.rego.syntax.opa_json import head_key, module_to_json
    from doorward.rego.syntax.parser import Parsed, parse_module, parse_query, parse_with_recovery
    from doorward.rego.syntax.walk import Node, children, rewrite, walk
    from doorward.rego.values import (
        compare,
        equal,
        iterate,
        lookup,
        make_object,
        make_set,
        operand_text,
    )
else:
    __getattr__ = _exporter(
        __name__,
        {
            "analysis.documents": "Documents Path",
            "analysis.hints": "near_name",
            "analysis.passes": "CheckOptions check report",
            "analysis.required": "required_builtins",
            "analysis.resolve": "Resolver import_name names_of_packages resolve_modules",
            "analysis.tree": "Definition RuleNode check_base_data path_text",
            "builtins.inversion.inverses": "variants witnesses",
            "builtins.inversion.witnesses": "glob_witnesses regex_witnesses",
            "builtins.registry": "Builtin",
            "builtins.registry.declarations": "to_declaration",
            "builtins.registry.signature": "kinds signature_text type_text",
            "clock": "count_step",
            "errors": "Details",
            "explanation.recorder": "Attempt Step Tried",
            "explanation.secrets": "without_secrets",
            "capabilities": "FEATURES V0_FEATURES WASM_ABI_VERSIONS future_keywords",
            "partial.data_use": "DataMember DataUse",
            "partial.paths": "parse_path path_names",
            "pointers": "read_patch_path read_name",
            "all_diagnostics": "find_errors",
            "saved.folder": "SavedFolder",
            "saved.keys": "key_of name_of",
            "saved.programs": "SavedPrograms",
            "syntax.keywords": "KEYWORDS ROOTS V1_KEYWORDS",
            "syntax.format": "Target format_module format_policy format_source format_tree",
            "syntax.lexer": "BRACKETS EOF IDENT Lexer Token loose_tokens",
            "syntax.nodes": (
                "And Annotations Array ArrayComprehension Body Call Every Expr Head Import "
                "Module Not Object ObjectComprehension Or Package Ref Rule Scalar Set "
                "SetComprehension SomeDecl SomeIn TemplateString Term Var With"
            ),
            "syntax.opa_json": "head_key module_to_json",
            "syntax.parser": "Parsed parse_module parse_query parse_with_recovery",
            "syntax.walk": "Node children rewrite walk",
            "values": "compare equal iterate lookup make_object make_set operand_text",
        },
        below="doorward.rego",
    )

__all__ = [
    "BRACKETS",
    "EOF",
    "FEATURES",
    "IDENT",
    "KEYWORDS",
    "ROOTS",
    "V0_FEATURES",
    "V1_KEYWORDS",
    "WASM_ABI_VERSIONS",
    "And",
    "Annotations",
    "Array",
    "ArrayComprehension",
    "Attempt",
    "Body",
    "Builtin",
    "Call",
    "CheckOptions",
    "DataMember",
    "DataUse",
    "Definition",
    "Details",
    "Documents",
    "Every",
    "Expr",
    "Head",
    "Import",
    "Lexer",
    "Module",
    "Node",
    "Not",
    "Object",
    "ObjectComprehension",
    "Or",
    "Package",
    "Parsed",
    "Path",
    "Ref",
    "Resolver",
    "Rule",
    "RuleNode",
    "SavedFolder",
    "SavedPrograms",
    "Scalar",
    "Set",
    "SetComprehension",
    "SomeDecl",
    "SomeIn",
    "Step",
    "Target",
    "TemplateString",
    "Term",
    "Token",
    "Tried",
    "Var",
    "With",
    "check",
    "check_base_data",
    "children",
    "compare",
    "count_step",
    "equal",
    "find_errors",
    "format_module",
    "format_policy",
    "format_source",
    "format_tree",
    "future_keywords",
    "glob_witnesses",
    "head_key",
    "import_name",
    "iterate",
    "key_of",
    "kinds",
    "lookup",
    "loose_tokens",
    "make_object",
    "make_set",
    "module_to_json",
    "name_of",
    "names_of_packages",
    "near_name",
    "operand_text",
    "parse_module",
    "parse_path",
    "parse_query",
    "parse_with_recovery",
    "path_names",
    "path_text",
    "read_name",
    "read_patch_path",
    "regex_witnesses",
    "report",
    "required_builtins",
    "resolve_modules",
    "rewrite",
    "signature_text",
    "to_declaration",
    "type_text",
    "variants",
    "walk",
    "without_secrets",
    "witnesses",
]
