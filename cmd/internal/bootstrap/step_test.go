package bootstrap

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAStepIsReportedWhenItBeginsAndEnds(t *testing.T) {
	failed := errors.New("no such cluster")
	for name, test := range map[string]struct {
		err  error
		want []string
	}{
		"it is done": {nil, []string{"► comparing with AWS", "✔ comparing with AWS (1.3s)"}},
		"it failed":  {failed, []string{"► comparing with AWS", "✗ comparing with AWS (1.3s)"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lines []string
				r := Request{Progress: func(line string) { lines = append(lines, line) }}
				err := r.step("comparing with AWS", func() error {
					if !slices.Equal(lines, test.want[:1]) {
						t.Errorf("it begins with %q", lines)
					}
					<-time.After(1320 * time.Millisecond)
					return test.err
				})
				if !errors.Is(err, test.err) {
					t.Errorf("got %v", err)
				}
				if diff := cmp.Diff(test.want, lines); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}
