package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/internal/golden"
)

func TestHelpOfInstallingReadsAsItsGolden(t *testing.T) {
	for _, command := range []string{"bootstrap", "uninstall"} {
		r := execute(t, command, "--help")
		if r.code != 0 || r.err != "" {
			t.Fatalf("exit %d, stderr %q", r.code, r.err)
		}
		golden.Compare(t, "testdata/help-"+command+".golden", r.out)
	}
}

func TestErrorsInInstalling(t *testing.T) {
	withoutCluster(t)
	nobody, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"bootstrap without a folder":           {[]string{"bootstrap"}, "bootstrap needs an argument: the folder"},
		"bootstrap without a prompt":           {[]string{"bootstrap", "."}, "pass --yes"},
		"bootstrap without anybody, or image":  {[]string{"bootstrap", "."}, "with --image"},
		"bootstrap without a cluster":          {[]string{"bootstrap", ".", "--yes"}, "set --kubeconfig or KUBECONFIG"},
		"bootstrap with an unknown output":     {[]string{"bootstrap", ".", "--yes", "-o", "xml"}, `-o "xml" is not one of text, json, yaml, markdown`},
		"uninstall without a prompt":           {[]string{"uninstall"}, "pass --yes"},
		"uninstall without a cluster":          {[]string{"uninstall", "--yes"}, "set --kubeconfig or KUBECONFIG"},
		"uninstall of an unsupported argument": {[]string{"uninstall", "now"}, "uninstall takes no argument, and got: now"},
		"a dry run needs nobody":               {[]string{"uninstall", "--dry-run"}, "set --kubeconfig or KUBECONFIG"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := Main(t.Context(), c.args, Streams{In: nobody, Out: &out, Err: &errOut})
			if code != exitError || !strings.Contains(errOut.String(), c.want) || out.Len() > 0 {
				t.Errorf("exit %d, stdout %q, stderr %q lacks %q", code, out.String(), errOut.String(), c.want)
			}
		})
	}
}

func TestOnlyAYesIsAYes(t *testing.T) {
	for name, c := range map[string]struct {
		response  yesNo
		typed     string
		yes       bool
		requested bool
	}{
		"y":                     {typed: "y\n", yes: true, requested: true},
		"Yes, without its line": {typed: "Yes", yes: true, requested: true},
		"nothing":               {typed: "\n", requested: true},
		"the end of the input":  {requested: true},
		"something else":        {typed: "yeah right\n", requested: true},
		"--yes":                 {response: yesNo{yes: true}, yes: true},
		"--dry-run":             {response: yesNo{dryRun: true}},
		"--dry-run with --yes":  {response: yesNo{yes: true, dryRun: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var errOut bytes.Buffer
			err := c.response.prompt(t.Context(), Streams{In: strings.NewReader(c.typed), Err: &errOut}, "Really?")
			if (err == nil) != c.yes || (errOut.String() == "Really? [y/N] ") != c.requested {
				t.Errorf("%v, said %q", err, errOut.String())
			}
			if e, ok := errors.AsType[*exit](err); err != nil && (!ok || e.code != exitDifferent) {
				t.Errorf("exit %+v", e)
			}
		})
	}
}

func TestCtrlCAtThePromptIsANo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	never, writer := io.Pipe()
	defer writer.Close()
	if err := (&yesNo{}).prompt(ctx, Streams{In: never, Err: io.Discard}, "Really?"); !errors.Is(err, errNo) {
		t.Errorf("got %v", err)
	}
}
