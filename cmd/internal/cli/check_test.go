package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/cmd/internal/check"
	"github.com/poolwright/poolwright/internal/golden"
)

func checked() check.Report {
	return check.Report{Namespace: "poolwright-system", Version: "v0.1.0", Results: []check.Result{
		{Name: "api-server", Status: check.OK, Message: "https://eks.example.com responds"},
		{Name: "controller", Status: check.Warning, Message: "1 of 2 replicas are available", Remedy: "for details run: kubectl -n poolwright-system describe pods"},
		{Name: "syncs", Object: "Sync poolwright-system/dev", Status: check.Failed, Message: "Unauthorized: the credentials are refused", Remedy: "docs/kinds/sync.md#conditions has each reason"},
		{Name: "aws", Status: check.Skipped, Message: "no Cluster is declared"},
	}}
}

func TestChecksReadAsTheirGoldens(t *testing.T) {
	for _, output := range []string{"text", "json"} {
		var out, err bytes.Buffer
		printed := printChecks(checked(), output, Streams{Out: &out, Err: &err})
		var e *exit
		if !errors.As(printed, &e) || e.code != exitDifferent || err.String() != "1 ok, 1 warning, 1 failed, 1 skipped\n" {
			t.Errorf("%s: %v, stderr %q", output, printed, err.String())
		}
		golden.Compare(t, "testdata/check-"+output+".golden", out.String())
	}
}

func TestWarningsFailNoCheck(t *testing.T) {
	report := checked()
	report.Results = report.Results[:2]
	if err := printChecks(report, "text", Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}); err != nil {
		t.Error(err)
	}
}

func TestAServerThatDoesNotRespondFailsTheFirstCheckOnly(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	kubeconfig(t, closed.URL)
	r := execute(t, "check", "--pre", "-o", "json")
	var got check.Report
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != 1 {
		t.Fatalf("exit %d, %v, stdout %q, stderr %q", r.code, err, r.out, r.err)
	}
	if first := got.Results[0]; first.Status != check.Failed || !strings.Contains(first.Message, `by context "dev": connection refused`) {
		t.Errorf("the first is %+v", first)
	}
	if n := got.Count(check.Skipped); !got.Pre || n != len(got.Results)-1 || n == 0 {
		t.Errorf("%d of %d were skipped", n, len(got.Results))
	}
}

func TestAServerThatRefusesTheCredentialsIsExplained(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`))
	}))
	defer refusing.Close()
	kubeconfig(t, refusing.URL)
	r := execute(t, "check")
	if r.code != 1 || !strings.Contains(r.out, "✗ api-server: ") || !strings.Contains(r.out, "log in again") || strings.Contains(r.out+r.err, "not-a-token") {
		t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
	}
}

func TestTheFormOfChecksIsTextOrJSON(t *testing.T) {
	if r := execute(t, "check", "-o", "xml"); r.code != 2 || !strings.Contains(r.err, "not one of text, json, yaml") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
}

func TestABundleReplacesNoFile(t *testing.T) {
	kubeconfig(t, "http://127.0.0.1:1")
	path := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if r := execute(t, "check", "--bundle", path); r.code != 1 || !strings.Contains(r.err, "wrote "+path) {
		t.Fatalf("exit %d, %q", r.code, r.err)
	}
	before, err := os.Stat(path)
	if err != nil || before.Size() == 0 || before.Mode() != 0o600 {
		t.Fatalf("the file is %v, %v", before, err)
	}
	if r := execute(t, "check", "--bundle", path); r.code != 2 || !strings.Contains(r.err, "exists: name another file") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	if after, err := os.Stat(path); err != nil || after.ModTime() != before.ModTime() {
		t.Errorf("it was written anew: %v", err)
	}
}
