package bootstrap

import (
	"fmt"
	"strings"
)

// imageReference is a reference to a container image in its parts. The tag is empty only beside a digest.
type imageReference struct{ repository, tag, digest string }

func parseImage(reference string) imageReference {
	name, digest, _ := strings.Cut(reference, "@")
	tag := ""
	// A colon before the last slash is that of a registry's port.
	if at := strings.LastIndexByte(name, ':'); at > strings.LastIndexByte(name, '/') {
		name, tag = name[:at], name[at+1:]
	}
	if tag == "" && digest == "" {
		tag = "latest"
	}
	return imageReference{name, tag, digest}
}

// differInRepository reports whether two references are to different images of one repository. Two digests decide that, and else
// the tags: which digest a tag has is known to the registry alone.
func differInRepository(a, b string) bool {
	one, two := parseImage(a), parseImage(b)
	switch {
	case one.repository != two.repository:
		return false
	case one.digest != "" && two.digest != "":
		return one.digest != two.digest
	}
	return one.tag != two.tag
}

// imageWarning is what a person should know where the controller that is installed has another image of the repository of
// the one that is given, or of this release's where none is; empty where it does not.
func imageWarning(installed, given, released string) string {
	switch {
	case given != "" && differInRepository(installed, given):
		return fmt.Sprintf("the image of the controller that is installed is %s, and is replaced by %s; to keep it, leave --image out", installed, given)
	case given == "" && differInRepository(installed, released):
		return fmt.Sprintf("the image of the controller that is installed is %s, and stays, while the other objects become those of this release; to install its image, pass --image %s", installed, released)
	}
	return ""
}
