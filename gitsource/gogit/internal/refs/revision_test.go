package refs

import (
	"strings"
	"testing"
)

func FuzzRevision(f *testing.F) {
	for _, s := range []string{"main", "HEAD~1", "@^2~3", "a..b", "~", "x^{tree}", "origin/main"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRevision(s)
		if err != nil {
			return
		}
		if strings.Contains(r.Name, "..") || strings.HasPrefix(r.Name, "/") || strings.ContainsAny(r.Name, "~^:\x00\\") {
			t.Errorf("%q leads to the name %q", s, r.Name)
		}
		for _, st := range r.Suffixes {
			if st.Count < 0 || st.Count > maxSuffix {
				t.Errorf("%q has a step of %d", s, st.Count)
			}
		}
	})
}
