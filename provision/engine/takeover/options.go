package takeover

import (
	"context"
	"flag"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	awsoptions "github.com/aws/karpenter-provider-aws/pkg/operator/options"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
)

// options are the settings of a Karpenter, by the names of its variables: each of
// them is a flag, too.
type options struct {
	values map[string]string
	// unreadable are variables of which the values cannot be known here, and elsewhere
	// what may hold any of them.
	unreadable, elsewhere []string
}

// unknown reports whether a variable may have a value that was not read.
func (o options) unknown(name string) bool {
	_, set := o.values[name]
	return slices.Contains(o.unreadable, name) || len(o.elsewhere) > 0 && !set
}

// set notes a value. One that names other variables is put together in the pod.
func (o *options) set(name, value string) {
	o.unreadable = slices.DeleteFunc(o.unreadable, func(n string) bool { return n == name })
	delete(o.values, name)
	if strings.Contains(value, "$(") {
		o.unreadable = append(o.unreadable, name)
		return
	}
	o.values[name] = value
}

// addUnreadable notes a value that cannot be read.
func (o *options) addUnreadable(name string) {
	delete(o.values, name)
	if !slices.Contains(o.unreadable, name) {
		o.unreadable = append(o.unreadable, name)
	}
}

// optionsOf reads them in the order in which one outweighs the other: envFrom,
// env, then arguments. ConfigMaps are read, Secrets never.
func optionsOf(ctx context.Context, c client.Reader, namespace string, container *corev1.Container) (options, error) {
	o := options{values: map[string]string{}}
	for _, from := range container.EnvFrom {
		if from.ConfigMapRef == nil {
			o.elsewhere = append(o.elsewhere, "all of a Secret in its envFrom")
			continue
		}
		data, err := configMap(ctx, c, namespace, from.ConfigMapRef.Name)
		if err != nil {
			return o, err
		}
		for name, value := range data {
			o.values[from.Prefix+name] = value
		}
	}
	for _, e := range container.Env {
		switch {
		case e.ValueFrom == nil:
			o.set(e.Name, e.Value)
		case e.ValueFrom.ResourceFieldRef != nil:
			o.addUnreadable(e.Name)
			if n := cpuRequests(container, e.ValueFrom.ResourceFieldRef); n > 0 {
				o.set(e.Name, strconv.FormatInt(n, 10))
			}
		case e.ValueFrom.ConfigMapKeyRef == nil:
			o.addUnreadable(e.Name)
		default:
			data, err := configMap(ctx, c, namespace, e.ValueFrom.ConfigMapKeyRef.Name)
			if err != nil {
				return o, err
			}
			if value, ok := data[e.ValueFrom.ConfigMapKeyRef.Key]; ok {
				o.values[e.Name] = value
			}
		}
	}
	args := container.Args
	if command := container.Command; len(command) > 0 {
		// A shell, or a program that starts another, may set any of them.
		if !slices.Contains([]string{"controller", "karpenter"}, path.Base(command[0])) {
			o.elsewhere = append(o.elsewhere, "its command")
			return o, nil
		}
		args = slices.Concat(command[1:], args)
	}
	o.arguments(args)
	return o, nil
}

// cpuRequests is what the kubelet puts into a variable that refers to the container's requests
// of processor time; zero where the reference is another one, or a LimitRange may decide.
func cpuRequests(container *corev1.Container, ref *corev1.ResourceFieldSelector) int64 {
	if ref.Resource != "requests.cpu" || ref.ContainerName != "" && ref.ContainerName != container.Name {
		return 0
	}
	requests := container.Resources.Requests.Cpu()
	if requests.IsZero() { // the API server's default
		requests = container.Resources.Limits.Cpu()
	}
	divisor := ref.Divisor.MilliValue()
	if divisor <= 0 {
		divisor = 1000
	}
	return (requests.MilliValue() + divisor - 1) / divisor
}

// arguments reads flags as Karpenter does: one dash or two, the value behind an
// equals sign or, unless it is a boolean, as the next argument.
func (o *options) arguments(args []string) {
	known := flagsOfKarpenter()
	for i := 0; i < len(args); i++ {
		name, value, has := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if !strings.HasPrefix(args[i], "-") || name == "" {
			o.elsewhere = append(o.elsewhere, "its arguments")
			return
		}
		if next := i + 1; !has {
			boolean, ours := known[name]
			// Of a flag of another version the next argument is the value unless it is a flag.
			takesNext := next < len(args) && (ours && !boolean || !ours && !strings.HasPrefix(args[next], "-"))
			if value = "true"; takesNext {
				value, i = args[next], next
			}
		}
		o.set(strings.ToUpper(strings.ReplaceAll(name, "-", "_")), value)
	}
}

// flagsOfKarpenter are the flags of the embedded Karpenter, true for booleans.
func flagsOfKarpenter() map[string]bool {
	all := &coreoptions.FlagSet{FlagSet: flag.NewFlagSet("karpenter", flag.ContinueOnError)}
	new(coreoptions.Options).AddFlags(all)
	new(awsoptions.Options).AddFlags(all)
	out := map[string]bool{}
	all.VisitAll(func(f *flag.Flag) {
		b, ok := f.Value.(interface{ IsBoolFlag() bool })
		out[f.Name] = ok && b.IsBoolFlag()
	})
	return out
}

// configMap reads one; where there is none, it sets nothing.
func configMap(ctx context.Context, c client.Reader, namespace, name string) (map[string]string, error) {
	var m corev1.ConfigMap
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &m)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the settings of a Karpenter in ConfigMap %s/%s: %w", namespace, name, err)
	}
	return m.Data, nil
}

const (
	electionName      = "LEADER_ELECTION_NAME"
	electionNamespace = "LEADER_ELECTION_NAMESPACE"
	electionOff       = "DISABLE_LEADER_ELECTION"
	// electionOn is electionOff's elder name, of the other sense.
	electionOn = "LEADER_ELECT"
)

// Undetectable is why the engine's gate OtherKarpenter would not detect by a lease that this
// one runs, so that two might; empty where it would.
func (k Karpenter) Undetectable() string {
	o := k.options
	off, _ := strconv.ParseBool(o.values[electionOff])
	on, err := strconv.ParseBool(o.values[electionOn])
	name := o.values[electionName]
	switch {
	case off:
		return electionOff + " is set"
	case err == nil && !on:
		return electionOn + " is false"
	case name != "" && name != Lease:
		return electionName + " is " + name
	case slices.ContainsFunc([]string{electionOff, electionName}, func(n string) bool { return slices.Contains(o.unreadable, n) }):
		return electionOff + " or " + electionName + " comes from where it cannot be read"
	}
	return ""
}
