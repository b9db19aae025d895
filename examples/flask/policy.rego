# Notes: who reads and changes which.
package notes

default read := false

read if input.notes.owner == input.user

read if lower(input.notes.visibility) == "public"
