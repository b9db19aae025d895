package posts

# METADATA
# scope: document
# compile:
#   unknowns: [input.posts]
include if input.posts.published == true

include if input.posts.owner == input.user
