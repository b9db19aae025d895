package docker

denials contains "privileged containers" if input.HostConfig.Privileged

denials contains sprintf("the host's %s", [source]) if {
	some bind in input.HostConfig.Binds
	source := split(bind, ":")[0]
	not startswith(source, "/srv/")
}

denials contains "an image without a digest" if not contains(input.Image, "@sha256:")
