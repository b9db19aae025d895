package z

p if { x := a(1) + b(2) * c(3); x > d(4) }
