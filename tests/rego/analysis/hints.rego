allow {
    input.x == 1
}
### 3:1: write `if` before the body: `allow if { … }`; a policy of Rego v0 is rewritten by `doorward fmt --v0-v1 -w`, and read as it is with --v0-compatible
---
deny[msg] {
    msg := "x"
}
### 3:1: write `if` before the body: `allow if { … }`; a policy of Rego v0 is rewritten by `doorward fmt --v0-v1 -w`, and read as it is with --v0-compatible
### 3:1: write `contains`: `deny contains message if { … }`
---
deny contains msg {
    msg := "x"
}
### 3:1: write `if` before the body: `allow if { … }`; a policy of Rego v0 is rewritten by `doorward fmt --v0-v1 -w`, and read as it is with --v0-compatible
---
allow if input.x == 1 && input.y == 2
### 3:24: `&&` is not Rego: put the conditions on lines of their own, all of them must hold
---
allow if {
    input.x == 1 || input.y == 2
}
### 4:19: `||` is not Rego: write the rule once for each alternative
---
allow if input.x == 1 or input.y == 2
### 3:23: write the rule once for each alternative; or `import future.keywords.or`
---
allow if input.x == 1 and input.y == 2
### 3:23: put the conditions on lines of their own, all of them must hold; or `import future.keywords.and`
---
allow iff input.x == 1
### 3:7: did you mean `if`?
---
allow := true iff input.x == 1
### 3:15: did you mean `if`?
---
allow := true fi input.x == 1
### 3:15: did you mean `if`?
---
allow when input.x == 1
### 3:7: `if` begins a body: write each further condition on its own line
---
import future.keywords.inn
### 3:8: did you mean `future.keywords.in`?
---
import foo.bar
### 3:8: policies and data are imported below `data`: `import data.foo.bar`
---
allow if !input.x
### 3:10: Rego writes `not` for `!`: `not input.x`
---
allow if !startswith(input.x, "a")
### 3:10: Rego writes `not` for `!`: `not input.x`
---
allow => input.x
### 3:8: there are no arrows in Rego: `if` begins a body, `>=` compares
---
allow if input.x === 1
### 3:20: `===` is not Rego: `==` compares
---
allow if input.x !== 1
### 3:20: Rego writes `!=`
---
allow if input.x <> 1
### 3:19: Rego writes `!=`
---
allow if input.x =< 1
### 3:19: Rego writes `<=`
---
allow if input.x => 1
### 3:19: there are no arrows in Rego: `if` begins a body, `>=` compares
---
allow if input.x == True
### 3:10: Rego writes `true`
---
allow if input.x == False
### 3:10: Rego writes `false`
---
allow if input.x == None
### 3:10: Rego writes `null`
---
allow := True
### 3:10: Rego writes `true`
---
allow if input.x == nil
### 3:10: Rego writes `null`
---
allow if input.x == undefined
### 3:10: Rego has no such value: test for a missing value with `not input.x`
---
allow if input.x == 'a'
### 3:21: write strings in double quotes or backquotes
---
allow := 1 if input.x else 2
### 3:28: the value of `else` stands after `:=`: `else := value`
---
allow := 1 if {
    input.x
} else if input.y {
    input.z
}
### 5:19: `else if` takes one condition, or a body in braces: `else if { … }`
---
p := 1 if {
    input.x
} elif {
    input.y
}
### 5:3: Rego writes `else if`, and `else := value if`
---
p := 1 if {
    input.x
} elseif {
    input.y
}
### 5:3: Rego writes `else if`, and `else := value if`
---
allow input.x == 1
### 3:7: `if` is missing before this condition, or a line break
---
allow := true input.x == 1
### 3:15: `if` is missing before this condition, or a line break
---
allow := true {
    input.x
}
### 3:1: write `if` before the body: `allow if { … }`; a policy of Rego v0 is rewritten by `doorward fmt --v0-v1 -w`, and read as it is with --v0-compatible
---
f(x) {
    x == 1
}
### 3:1: write `if` before the body: `allow if { … }`; a policy of Rego v0 is rewritten by `doorward fmt --v0-v1 -w`, and read as it is with --v0-compatible
---
f(x) := x + 1 {
    x == 1
}
### 3:1: write `if` before the body: `allow if { … }`; a policy of Rego v0 is rewritten by `doorward fmt --v0-v1 -w`, and read as it is with --v0-compatible
---
allow if {
    return true
}
### 4:12: Rego has no `return`: write the value in the head, `name := value if { … }`
---
f(x) if {
    return x + 1
}
### 4:12: Rego has no `return`: write the value in the head, `name := value if { … }`
---
function f(x) {
    x
}
### 3:1: rules and functions begin with their name: `name if { … }`, `f(x) := value if { … }`
---
def f(x):
    return x
### 3:9: rules and functions begin with their name: `name if { … }`, `f(x) := value if { … }`
---
func f(x) := x
### 3:1: rules and functions begin with their name: `name if { … }`, `f(x) := value if { … }`
---
let x = 1
### 3:1: `x := value` binds a variable, without a word before it
---
allow if {
    let x := 1
    x == 1
}
### 4:9: `x := value` binds a variable, without a word before it
---
allow if {
    var x = 1
    x == 1
}
### 4:9: `x := value` binds a variable, without a word before it
---
allow if {
    for x in input.xs {
        x == 1
    }
}
### 4:9: Rego writes `some x in xs`, and `[x | some x in xs]` for a comprehension
---
allow if {
    foreach x in input.xs
    x == 1
}
### 4:13: Rego writes `some x in xs`, and `[x | some x in xs]` for a comprehension
---
allow if {
    if input.x == 1 {
        input.y
    }
}
### 4:5: a rule begins with its name: `allow if { … }`; a condition needs no `if`
---
if input.x == 1 {
    allow := true
}
### 3:1: a rule begins with its name: `allow if { … }`; a condition needs no `if`
---
// comment
allow := true
### 3:1: comments begin with `#`
---
allow := true // comment
### 3:16: comments begin with `#`
---
/* comment */
allow := true
### 3:1: comments begin with `#`
---
-- comment
allow := true
### 3:2: comments begin with `#`
---
allow if {
    x not in input.xs
}
### 4:7: Rego writes `not x in xs`
---
allow := input.x ? 1 : 2
### 3:18: `? :` is not Rego: write a rule with `else`, or two rules
---
allow := "a" + input.x
### 3:10: `+` adds numbers; join strings with `concat("", [a, b])` or `$"{a}{b}"`
---
allow := f"a {input.x}"
### 3:11: a string with values in it is written `$"a {input.x}"`
---
allow if input.foo-bar == 1
### 3:10: write a key with `-` in brackets: `input["foo-bar"]`
---
allow if input.x == “a”
### 3:21: these are not plain quotes: write `"`
---
allow := {
    "a": 1
    "b": 2
}
### 5:5: a comma is missing before this
---
allow := [1 2]
### 3:13: a comma is missing before this
---
allow := "abc
### 3:10: the closing quote is missing here; write a string of several lines in backquotes
---
allow := "a\d"
### 3:10: write `\\` for a backslash in double quotes; backquotes take it as it is: `\d+`
---
allow := regex.match("\d+", input.x)
### 3:22: write `\\` for a backslash in double quotes; backquotes take it as it is: `\d+`
---
allow if {
    input.x == 1,
    input.y == 2
}
### 4:17: write each condition on its own line, or `;` between them
---
allow if {
    input.x += 1
}
### 4:14: a variable keeps its value: bind another one with `:=`
---
allow if {
    x = x + 1
}
### 4:5: assign `x`, or bind it with `some x in …`
---
allow if {
    input.x == 1
### 5:0: the `{` of row 3 is not closed
---
allow := [1, 2
### 4:0: the `[` of row 3 is not closed
---
allow := f(1, 2
### 4:0: the `(` of row 3 is not closed
---
p == 1
### 3:1: `:=` gives a rule its value, `==` compares
---
rule allow := true
### 3:1: rules and functions begin with their name: `name if { … }`, `f(x) := value if { … }`
---
allow if input.x is null
### 3:18: Rego compares with `==` and `!=`
---
allow if input.x is not null
### 3:18: Rego compares with `==` and `!=`
---
allow if input.xs contains 1
### 3:19: `x in xs` tests if a collection has a value, `contains(text, part)` if a text has a part
---
allow if len(input.x) == 1
### 3:10: `count(x)` is the size of a collection or string
---
allow if input.x.startswith("a")
### 3:10: functions take all operands in parentheses: `startswith(input.x, …)`
---
allow if str(input.x) == "1"
### 3:10: `sprintf("%v", [x])` converts a value to a string
---
allow if isString(input.x)
### 3:10: did you mean `is_string`?
---
allow if start_with(input.x, "a")
### 3:10: did you mean `startswith`?
---
default allow false
### 3:15: write the value of a default after `:=`: `default allow := false`
---
allow = true;
### 4:0: `;` separates two conditions of a line: leave it out at the end
---
allow if input.x == 1;
### 3:22: `;` separates two conditions of a line: leave it out at the end
---
allow := true;
### 4:0: `;` separates two conditions of a line: leave it out at the end
---
contains deny "x"
### 3:10: `if` is missing before this condition, or a line break
---
deny contain "x" if input.x
### 3:18: did you mean `contains`?
---
allow if every x in input.xs { x > 1 
### 4:0: the `{` of row 3 is not closed
---
allow if all x in input.xs { x > 1 }
### 3:14: Rego writes `every x in xs { … }`
### 3:28: `if` is missing before this condition, or a line break
---
allow if any(x in input.xs)
### 3:14: assign `x`, or bind it with `some x in …`
---
allow if exists x in input.xs
### 3:17: Rego writes `some x in xs`
---
allow if some x : input.xs
### 3:17: Rego writes `some x in xs`
---
allow if some x of input.xs
### 3:17: Rego writes `some x in xs`
---
allow if null(input.x)
### 3:10: `is_null(x)` tests for null
---
allow if input.x != null and input.x > 1
### 3:26: put the conditions on lines of their own, all of them must hold; or `import future.keywords.and`
---
allow if not (input.x or input.y)
### 3:23: write the rule once for each alternative; or `import future.keywords.or`
---
allow if x in [1,2] where x > 1
### 3:21: `if` begins a body: write each further condition on its own line
---
allow if { true; }
### 3:18: `;` separates two conditions of a line: leave it out at the end
---
1 + 1
### 3:1: a policy consists of rules: `name := value`, `name if { … }`
---
"abc"
### 3:1: a policy consists of rules: `name := value`, `name if { … }`
---
p[x] := 1 if x in [1]
q.r contains 1 if true
### 3:14: assign `x`, or bind it with `some x in …`
---
allow if input.x == 0x10
### 3:21: numbers are decimal: `16`, `1.5`, `1e3`
---
allow if input.x > 1.
### 3:20: digits follow the point of a number: `1.0`
---
allow if input.@type == "x"
### 3:16: write a key that is not a name in brackets: `input["@type"]`
---
allow if input.$ref == "x"
### 3:16: write a key that is not a name in brackets: `input["@type"]`
---
allow if input?.x == "x"
### 3:15: Rego needs no `?.`: a path with a missing key is undefined
---
allow if input.x ?? false
### 3:18: `??` is not Rego: `object.get(object, key, default)` has a default
---
allow if input["x]
### 3:16: the closing quote is missing here; write a string of several lines in backquotes
---
allow if input[x
### 4:0: the `[` of row 3 is not closed
---
allow if (input.x
### 4:0: the `(` of row 3 is not closed
---
allow if input.x)
### 3:17: nothing is open that `)` could close
---
}
### 3:1: nothing is open that `}` could close
---
allow := true }
### 3:15: nothing is open that `}` could close
---
allow if input.x == 1 # c
    input.y == 2
### 4:5: write a body of several conditions in braces: `if { … }`
---
allow if
    input.x == 1
    input.y == 2
### 5:5: write a body of several conditions in braces: `if { … }`
---
p if { x := 1; x := 2 }
### 3:16: a variable is assigned only once: use another name
---
allow if helpr(input.x)
helper(x) if x == 1
### 3:10: did you mean `helper`?
---
allow if hlper
helper if input.x
### 3:10: did you mean `helper`?
---
p := `abc
### 3:6: the closing backquote of this string is missing
---
p := x | y
### 3:6: assign `x`, or bind it with `some x in …`
### 3:6: assign `y`, or bind it with `some y in …`
---
p := {x: 1 for x in input.xs}
### 3:12: Rego writes `some x in xs`, and `[x | some x in xs]` for a comprehension
---
p := [x for x in input.xs]
### 3:9: Rego writes `some x in xs`, and `[x | some x in xs]` for a comprehension
---
p := [x | x in input.xs]
### 3:11: assign `x`, or bind it with `some x in …`
---
p if input.xs[i].y == 1; i > = 2
### 3:24: `;` separates two conditions of a line: leave it out at the end
