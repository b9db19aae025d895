package response

body := input.body if input.role == "admin"

body := object.remove(input.body, hidden) if input.role != "admin"

hidden := {"salary", "iban"}
