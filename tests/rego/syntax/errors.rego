import f(x)
### 4:0: expected path
---
set() := 1
### 3:1: set cannot be used for rule name
---
input
### 3:1: refs cannot be used for rule head
---
f()
### 3:1: rule argument list must take at least one argument
---
[x].y := 1
### 3:1: invalid rule head: [x].y
---
[x].y.z
### 3:1: invalid rule head: [x].y.z
---
[x].y(1)
### 3:1: invalid rule head: [x].y
---
p if x else := 1 if
### 4:0: unexpected eof token: rule body expected
---
p if x else := 1 if }
### 3:21: unexpected } token
---
p if x else := )
### 3:16: unexpected ) token
---
p if x else if { )
### 3:18: unexpected ) token
---
p if x else := 1 { x } { y }
### 3:24: expected else keyword
---
p if { x } { ) }
### 3:14: unexpected ) token
---
p if x else if
### 4:0: unexpected eof token: rule body expected
---
p if { every f(x), y in z { x } }
### 3:27: unexpected { token: expected key to be a variable
---
p if { every x }
### 3:16: unexpected } token: expected `x[, y] in xs { ... }` expression
---
p if { every f(x) in y { x } }
### 3:24: unexpected { token: expected value to be a variable
---
p if { every x in y }
### 3:21: unexpected } token: missing body
---
p if { x with
### 4:0: unexpected eof token: expected ident
---
p if { x with if(
### 3:15: unexpected if keyword: expected ident
---
p if { x with a.( as 1 }
### 3:17: unexpected ( token: expected identifier
---
p if { x with f(1) as 1 }
### 3:20: unexpected as keyword: expected with target path
---
p if { x with y }
### 3:17: unexpected } token: expected as keyword
---
p if { x with y as ) }
### 3:20: unexpected ) token
---
p := 1e50000
### 3:6: number too big
### 3:6: unexpected number token: expected rule value term (e.g., p := <VALUE> { ... })
---
p := 1e99999999999
### 3:6: unexpected number token: invalid float
### 3:6: unexpected number token: expected rule value term (e.g., p := <VALUE> { ... })
---
p if { "	\n" }
### 3:8: illegal string literal: "	\n"
---
p if { $"{x}\q" }
### 3:13: illegal escape sequence
### 3:13: expected template-string part
---
p if { $"\u12" }
### 3:8: non-terminated string
### 3:8: illegal token
---
p if { $"{not x}" }
### 3:11: unexpected negation ('not') in template-string expression
---
p if { $"{every x in y { x }}" }
### 3:11: unexpected 'every' in template-string expression
---
p if { $"{some x}" }
### 3:11: unexpected 'some' in template-string expression
---
p if { $"{x := 1}" }
### 3:11: unexpected assignment (':=') in template-string expression
---
p if { $"{x = 1}" }
### 3:11: unexpected unification ('=') in template-string expression
---
p if { $"{x y}" }
### 3:13: expected } to end template string expression
---
p if { [x | )] }
### 3:13: unexpected ) token
---
p if { {x | )} }
### 3:13: unexpected ) token
---
p if { x.{} }
### 3:10: unexpected { token: expected identifier
---
p if { [ ) ] }
### 3:10: unexpected ) token
---
p if { f({x: )}) }
### 3:14: unexpected ) token
---
p if { f({x: 1 + }) }
### 3:18: unexpected } token
---
p if { f({x + 1 ; }) }
### 3:17: unexpected ; token: non-terminated set
---
p if { f({x: y + 1 ; }) }
### 3:20: unexpected ; token: non-terminated object
---
p if { f({x: 1 | ), 2: 3}) }
### 3:18: unexpected ) token
### 3:18: unexpected ) token: non-terminated object
---
p if { f({1 + ) }
### 3:15: unexpected ) token
### 3:15: unexpected ) token: non-terminated set
---
p if { f({x + 1: ) }
### 3:18: unexpected ) token
---
p if { f({1: 2, 3}) }
### 3:14: unexpected number token: non-terminated object
---
p if { f({1: 2, )}) }
### 3:14: unexpected number token: non-terminated object
---
p if { f({1: 2, 3: )}) }
### 3:14: unexpected number token: non-terminated object
---
p if { f({1: x + 1, 3: )}) }
### 3:24: unexpected ) token
---
p if { f({1: x + 1, 3}) }
### 3:22: unexpected } token: expected ":"
---
p if { a.#c
 b }
### 4:0: unexpected whitespace token: expected identifier
---
p if { x[)] }
### 3:10: unexpected ) token
---
p if { x[1) }
### 3:11: unexpected ) token: expected [
---
p if { (x ] }
### 3:11: non-terminated expression
---
p if { () }
### 3:9: unexpected ) token
---
p if { . }
### 3:10: unexpected } token: expected number
---
p if { f(1 2) }
### 3:12: unexpected number token: expected "," or ")"
---
p if { a.b[1].c(1 }
### 3:19: unexpected } token: expected "," or ")"
---
p if { {x: y | )} }
### 3:16: unexpected ) token
### 3:16: unexpected ) token: non-terminated object
---
p if { not some x }
### 3:12: unexpected some keyword: illegal negation of 'some'
---
p if { not every x in y { x } }
### 3:12: unexpected every keyword: illegal negation of 'every'
---
p if { some f(x) }
### 3:18: unexpected } token: expected `x in xs` or `x, y in xs` expression
---
p if { some 1 }
### 3:13: unexpected number token: expected var
---
p if { some x, 1 }
### 3:16: unexpected number token: expected var
---
p(x) contains y if z
### 3:6: unexpected contains keyword: the contains keyword can only be used with multi-value rule definitions (e.g., p contains <VALUE> { ... })
---
p contains if x
### 3:12: unexpected if keyword
### 3:12: unexpected if keyword: expected rule key term (e.g., p contains <VALUE> { ... })
---
p := if x
### 3:6: unexpected if keyword
### 3:6: unexpected if keyword: expected rule value term (e.g., p := <VALUE> { ... })
---
p = if x
### 3:5: unexpected if keyword
### 3:5: unexpected if keyword: expected rule value term (e.g., p[<nil>] = <VALUE> { ... })
---
p(x) := if y
### 3:9: unexpected if keyword
### 3:9: unexpected if keyword: expected function value term (e.g., p(...) := <VALUE> { ... })
---
default p := if
### 3:14: unexpected if keyword
### 3:14: unexpected if keyword: expected default rule value term (e.g., default p := <VALUE>)
---
default p.q
### 3:1: illegal default rule (must have a value)
---
default f([x]) := 1
### 3:1: illegal default rule (arguments cannot contain array)
---
p[x] if y else := 1
### 3:11: else keyword cannot be used on rules with variables in head
---
p contains x if y else := 1
### 3:19: else keyword cannot be used on multi-value rules
---
p[x].y if z else := 1
### 3:13: else keyword cannot be used on rules with variables in head
---
p if x with y as 1 {
### 4:0: unexpected eof token
---
not p
### 3:1: negated expressions cannot be used for rule head
---
some x
### 3:1: 'some' declarations cannot be used for rule head
---
every x in y { x }
### 3:1: expression cannot be used for rule head
---
p; q
### 3:1: multiple expressions cannot be used for rule head
---
p with x as 1
### 3:1: expressions using with keyword cannot be used for rule head
---
package x.y(1)
### 4:0: unexpected eof token
---
package [1]
### 3:9: unexpected [ token
---
import data.x as
### 4:0: unexpected eof token: expected var
---
import data[1]
### 3:13: unexpected number token: expecting string
---
p if x
} 
### 4:1: unexpected } token
---
p if { x y }
### 3:10: unexpected identifier token: expected \n or ; or }
---
p if {}{}
### 3:9: found empty body
---
p :=
### 4:0: unexpected eof token
### 4:0: unexpected eof token: expected rule value term (e.g., p := <VALUE> { ... })
---
p if {
### 4:0: unexpected eof token
---
package f(x).y
### 3:9: unexpected call token: expecting var
---
package"x"
### 3:8: unexpected string token
---
default p := $"{x}"
### 3:1: illegal default rule (value cannot contain var)
---
p if { f({1: x + 1, 3: 4 5}) }
### 3:26: unexpected number token: expected "," or "}"
---
p if { "\u12zz" }
### 3:8: illegal string literal: "\u12zz"
---
import future.keywords.and
p if { (input.a and input.b input.c) }
### 4:29: expected ) to close parenthesized group
---
import future.keywords.or
p if { (input.a or (input.b or input.c) }
### 4:41: expected ) to close parenthesized group
