# Who may do what with which order: asked by `user.has_perm`.
package shop

default allow := false

allow if {
	input.permission == "shop.view_order"
	input.object.owner == input.user.name
}
