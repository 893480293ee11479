package userdata

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const bootstrapScript = "/etc/eks/bootstrap.sh"

func parseAL2(text string) (Join, error) {
	parts, err := split(text)
	if err != nil {
		return Join{}, err
	}
	var calls [][]argument
	ended := false
	for i, p := range parts {
		if !p.isScript() {
			continue
		}
		found, err := commands(p.body)
		if err != nil {
			return Join{}, fmt.Errorf("in MIME part %d: %w", i+1, err)
		}
		for _, c := range untilExit(found) {
			if args, ok := bootstrapCall(c.args); ok {
				calls = append(calls, args)
			}
		}
		ended = ended || len(untilExit(found)) < len(found)
	}
	switch {
	case len(calls) == 0 && ended:
		return Join{}, errors.New("its shell script ends before it calls " + bootstrapScript)
	case len(calls) == 0:
		return Join{}, errors.New("no shell script in it calls " + bootstrapScript)
	}
	// A second call would configure the same kubelet again: the last one holds.
	last := calls[len(calls)-1]
	if at := slices.IndexFunc(last, func(w argument) bool { return w.text == "--ip-family" }); at >= 0 && at+1 < len(last) && last[at+1].text == "ipv6" {
		return Join{}, errIPv6
	}
	return readBootstrap(last)
}

// untilExit are the commands that a script comes to: those before an exit, or a
// false under "set -e", that it reaches whatever happens. What stands in a block or
// behind && and || is not read: whether it runs is unknown here.
func untilExit(script []command) []command {
	depth, strict := 0, false
	for i, c := range script {
		first := c.args[0].text
		switch first {
		case "if", "for", "while", "until", "case", "select", "{":
			depth++
		case "fi", "done", "esac", "}":
			depth--
		}
		if depth != 0 || c.conditional {
			continue
		}
		if first == "set" && len(c.args) > 1 {
			strict = strict || errexit.MatchString(c.args[1].text)
		}
		if first == "exit" || strict && first == "false" {
			return script[:i]
		}
	}
	return script
}

// errexit finds the option of set that ends a script at the first failure.
var errexit = regexp.MustCompile(`^-[a-zA-Z]*e`)

// bootstrapCall finds the call in a command, also after keywords such as "then" or
// "sudo", and returns its arguments.
func bootstrapCall(command []argument) ([]argument, bool) {
	for i, w := range command {
		if w.text == bootstrapScript && !w.dynamic {
			return command[i+1:], true
		}
	}
	return nil, false
}

// readBootstrap reads the script's arguments. It takes them only as
// "--option value"; what it does not support is positional, as in the script.
func readBootstrap(args []argument) (Join, error) {
	var join Join
	useMaxPods, extra := true, ""
	for i := 0; i < len(args); i++ {
		option := args[i].text
		if !bootstrapOption(option) {
			if args[i].dynamic {
				return Join{}, errors.New("the cluster name is a shell expansion, which the sandbox does not evaluate")
			}
			if join.Cluster == "" {
				join.Cluster = option
			}
			continue
		}
		if i++; i >= len(args) {
			return Join{}, fmt.Errorf("bootstrap.sh's %s has no value", option)
		}
		if args[i].dynamic {
			return Join{}, fmt.Errorf("bootstrap.sh's %s is a shell expansion, which the sandbox does not evaluate", option)
		}
		switch value := args[i].text; option {
		case "--apiserver-endpoint":
			join.Endpoint = value
		case "--b64-cluster-ca":
			join.CA = value
		case "--use-max-pods":
			useMaxPods = value == "true"
		case "--kubelet-extra-args":
			extra = value
		case "--local-disks":
			join.RAID0 = value == "raid0"
		}
	}
	if join.Cluster == "" {
		return Join{}, errors.New("bootstrap.sh is called without a cluster name")
	}
	if !useMaxPods {
		join.Kubelet.MaxPods = kubeletMaxPods
	}
	return join, join.Kubelet.extend(extra)
}

func (k *Kubelet) extend(line string) error {
	args, err := fields(line)
	if err != nil {
		return err
	}
	if err := k.apply(args); err != nil {
		return err
	}
	return k.check()
}

func bootstrapOption(name string) bool {
	switch strings.TrimPrefix(name, "--") {
	case "use-max-pods", "b64-cluster-ca", "apiserver-endpoint", "kubelet-extra-args", "enable-docker-bridge",
		"aws-api-retry-attempts", "docker-config-json", "containerd-config-file", "dns-cluster-ip",
		"pause-container-account", "pause-container-version", "ip-family", "service-ipv6-cidr",
		"enable-local-outpost", "cluster-id", "mount-bpf-fs", "local-disks", "container-runtime":
		return strings.HasPrefix(name, "--")
	}
	return false
}
