package markup

import (
	"testing"
)

func TestAWarningReadsAsProseAndItsNamesAreCode(t *testing.T) {
	for in, want := range map[string]string{
		"choose al2023@latest or bottlerocket@latest, and read on.":                  "choose `al2023@latest` or `bottlerocket@latest`, and read on.",
		"${AMI} is not read here; give it one with --substitute AMI=VALUE":           "`${AMI}` is not read here; give it one with `--substitute AMI=VALUE`",
		"Karpenter's pool (gpu-1) has on-demand nodes, of 3 (or 4)":                  "Karpenter's pool (`gpu-1`) has on-demand nodes, of 3 (or 4)",
		"1. deadbeefcafe and faded 1234567 @all #1 <b> *a* `b` a.b :x: 'a' a--b ...": "`1`. `deadbeefcafe` and faded ``1234567 @all #1 <b> *a* `b` a.b :x``: `'a' a--b ...`",
		"the quota is 64; run: aws x y-z --b c, then kubectl get it":                 "the quota is 64; run: `aws x y-z --b c`, then `kubectl get it`",
		"":    "",
		" \t": "`\\t`",
	} {
		if got := Prose(in); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}
