package report

import (
	"strconv"
	"strings"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
)

// revision names a commit of a branch as people do.
func revision(v markup.Style, branch, commit string) string {
	var out []string
	for _, name := range []string{branch, shortCommit(commit)} {
		if name != "" {
			out = append(out, v.Short(name))
		}
	}
	return strings.Join(out, v.At)
}

// splitRevision takes branch@sha1:commit apart; without a branch it is a commit alone.
func splitRevision(revision string) (branch, commit string) {
	at := strings.LastIndex(revision, "@")
	branch, commit = revision[:max(at, 0)], revision[at+1:]
	if _, digest, ok := strings.Cut(commit, ":"); ok {
		commit = digest
	}
	return branch, commit
}

// shortCommit is the beginning of a commit's name by which people refer to it.
func shortCommit(s string) string {
	const enough = 7
	if len(s) > enough && strings.Trim(s, "0123456789abcdefABCDEF") == "" {
		return s[:enough]
	}
	return s
}

// moment is a time as it stands in a text that may be read much later.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") + " UTC" }

// formatDuration is how long something lasted, in the unit that suits it.
func formatDuration(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Round(time.Second)/time.Second)) + " s"
	case d < 3*time.Hour:
		return strconv.Itoa(int(d.Round(time.Minute)/time.Minute)) + " min"
	case d < 72*time.Hour:
		return strconv.FormatFloat(d.Hours(), 'f', 1, 64) + " h"
	}
	return strconv.FormatFloat(d.Hours()/24, 'f', 1, 64) + " days"
}
