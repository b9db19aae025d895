# Who may do what in the help desk. The decision on an object, the rows of the admin and the list of
# /tickets ask the same functions.
package desk

default allow := false

# The pages of the admin, which show rows that are decided on one by one.
allow if {
	not input.object
	input.user.staff
}

allow if {
	input.permission == "desk.view_ticket"
	readable(input.object.fields)
}

allow if {
	input.permission in {"desk.change_ticket", "desk.delete_ticket"}
	readable(input.object.fields)
	input.object.fields.status == "open"
}

# Everybody reads the comments of a ticket; one's own may be changed.
allow if input.permission == "desk.view_comment"

allow if {
	input.permission in {"desk.change_comment", "desk.delete_comment", "desk.add_comment"}
	input.object.fields.author_id == input.user.id
}

# Rows of `Ticket.objects.for_user(user, "desk.view_ticket")`.
rows if {
	input.permission == "desk.view_ticket"
	readable(input.row)
}

# A ticket is readable to its team, to whom it is assigned to, and to administrators.
readable(ticket) if ticket.team in input.user.groups

readable(ticket) if ticket.assignee_id == input.user.id

readable(_) if input.user.superuser
