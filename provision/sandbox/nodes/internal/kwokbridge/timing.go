package kwokbridge

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The annotations by which stages get a pod's times, in seconds. timed fills in what
// the pod's probes, hooks and commands take; readySeconds is for that only.
const (
	// RunSeconds makes a pod that is not restarted end by itself after so long.
	RunSeconds   = "sandbox.poolwright.dev/run-seconds"
	exitCode     = "sandbox.poolwright.dev/exit-code"
	stopSeconds  = "sandbox.poolwright.dev/stop-seconds"
	readySeconds = "sandbox.poolwright.dev/ready-seconds"
)

// Ends reports whether a pod declares how long it runs, by its annotation or by the
// commands of its containers.
func Ends(pod *corev1.Pod) bool {
	if pod.Annotations[RunSeconds] != "" {
		return true
	}
	_, known := exitStatusOf(pod.Spec)
	return known
}

// timed returns the pod as stages read it: with the annotations that its probes,
// preStop hooks and commands amount to. What an annotation has already stays, and the
// time that containers take to stop comes after their hooks.
func timed(pod *corev1.Pod) *corev1.Pod {
	add := map[string]string{}
	if run, known := exitStatusOf(pod.Spec); known && pod.Annotations[RunSeconds] == "" {
		add[RunSeconds], add[exitCode] = seconds(run.length), strconv.Itoa(run.code)
	}
	if after := readyAfter(pod.Spec); after > 0 && !Ends(pod) && pod.Spec.ActiveDeadlineSeconds == nil {
		add[readySeconds] = seconds(after)
	}
	if hook := preStop(pod.Spec); hook > 0 {
		stop, _ := strconv.ParseFloat(pod.Annotations[stopSeconds], 64)
		add[stopSeconds] = seconds(hook + time.Duration(max(stop, 0)*float64(time.Second)))
	}
	if len(add) == 0 {
		return pod
	}
	out := *pod
	out.Annotations = maps.Clone(pod.Annotations)
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	maps.Copy(out.Annotations, add)
	return &out
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

// readyAfter is how long after their start the last container is ready, all probes
// succeeding. Readiness is probed from the start on, and counts once the startup
// probe has succeeded.
func readyAfter(spec corev1.PodSpec) time.Duration {
	var last time.Duration
	for _, c := range spec.Containers {
		last = max(last, succeeds(c.StartupProbe), succeeds(c.ReadinessProbe))
	}
	return last
}

// succeeds is when a probe has succeeded often enough: kubelets probe once a
// period, from the container's start, and not before the initial delay.
func succeeds(p *corev1.Probe) time.Duration {
	if p == nil {
		return 0
	}
	period := p.PeriodSeconds
	if period <= 0 {
		period = 10 // the API's default
	}
	first := (p.InitialDelaySeconds + period - 1) / period * period
	return time.Duration(max(first, 0)+max(p.SuccessThreshold-1, 0)*period) * time.Second
}

// preStop is the longest of the containers' preStop hooks that sleep; others are
// taken to be done at once.
func preStop(spec corev1.PodSpec) time.Duration {
	var longest time.Duration
	for _, c := range spec.Containers {
		if c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
			continue
		}
		hook := c.Lifecycle.PreStop
		switch {
		case hook.Sleep != nil:
			longest = max(longest, time.Duration(hook.Sleep.Seconds)*time.Second)
		case hook.Exec != nil:
			run, _ := commandOf(hook.Exec.Command)
			longest = max(longest, run.length)
		}
	}
	return longest
}

// exitStatus is how a command ends.
type exitStatus struct {
	length time.Duration
	code   int
}

// exitStatusOf is how a pod ends whose containers all have commands of which that is
// known: with the longest, and the first code that is not zero.
func exitStatusOf(spec corev1.PodSpec) (exitStatus, bool) {
	var all exitStatus
	for _, c := range spec.Containers {
		if len(c.Command) == 0 || spec.RestartPolicy == corev1.RestartPolicyAlways {
			return exitStatus{}, false
		}
		one, known := commandOf(slices.Concat(c.Command, c.Args))
		if !known {
			return exitStatus{}, false
		}
		all.length = max(all.length, one.length)
		if all.code == 0 {
			all.code = one.code
		}
	}
	if all.code != 0 && spec.RestartPolicy == corev1.RestartPolicyOnFailure {
		return exitStatus{}, false // It would be started anew, again and again.
	}
	return all, len(spec.Containers) > 0
}

var (
	shellFlag = regexp.MustCompile(`^-[a-z]*c$`)
	then      = regexp.MustCompile(`\s*(?:;|\n)\s*`)
	and       = regexp.MustCompile(`\s*&&\s*`)
	shell     = regexp.MustCompile(`^(?:/bin/|/usr/bin/)?(?:ba|da|a)?sh$`)
	statement = regexp.MustCompile(`^(?:/bin/|/usr/bin/)?(?:(true|false|:)|sleep ([0-9]{1,8}(?:\.[0-9]{1,3})?)([smhd]?)|exit(?: ([0-9]{1,3}))?|echo [^<>|&$` + "`" + `;]*)$`)
)

// commandOf reads a command that only sleeps, exits or prints. Of any other it is
// false, with the time until the first step that is unknown here.
func commandOf(args []string) (exitStatus, bool) {
	script := strings.Join(args, " ")
	if len(args) >= 3 && shell.MatchString(args[0]) && shellFlag.MatchString(args[1]) {
		script = args[2]
	}
	var out exitStatus
	for _, line := range then.Split(strings.TrimSpace(script), -1) {
		for _, text := range and.Split(line, -1) {
			if text == "" {
				continue
			}
			found := statement.FindStringSubmatch(text)
			if found == nil {
				return out, false
			}
			out.code = 0
			switch amount, err := strconv.ParseFloat(found[2], 64); {
			case err == nil:
				unit := map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[found[3]]
				out.length += time.Duration(amount * float64(unit))
			case strings.HasPrefix(text, "exit"):
				out.code, _ = strconv.Atoi(found[4])
				return out, true
			case found[1] == "false":
				out.code = 1
			}
			if out.code != 0 {
				break // What follows && is not run.
			}
		}
	}
	return out, script != ""
}
