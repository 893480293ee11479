package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"
)

// laptopWithout is a machine without AWS credentials, whose metadata service of EC2 counts its requests.
func laptopWithout(t *testing.T) *atomic.Int32 {
	t.Helper()
	withoutCluster(t)
	requests := &atomic.Int32{}
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(metadata.Close)
	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_EC2_METADATA_DISABLED",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
	} {
		t.Setenv(name, "") // and back to what it was
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.URL)
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	return requests
}

// captured is what a function writes to the process's own standard error, as libraries do.
func captured(t *testing.T, do func()) string {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = file
	defer func() { os.Stderr = before }()
	do()
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestACommandRequestsNoCredentialsFromAnInstance(t *testing.T) {
	for name, test := range map[string]struct {
		set       string
		requested bool
	}{
		"by default":            {},
		"where it is forbidden": {set: "true"},
		"where it is allowed":   {set: "false", requested: true},
	} {
		t.Run(name, func(t *testing.T) {
			requests := laptopWithout(t)
			if test.set != "" {
				t.Setenv("AWS_EC2_METADATA_DISABLED", test.set)
			}
			var r result
			printed := captured(t, func() {
				r = execute(t, "init", t.TempDir()+"/dev", "--cluster", "dev", "--region", "eu-west-1")
			})
			if r.code != exitError || r.out != "" {
				t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
			}
			if (requests.Load() > 0) != test.requested {
				t.Errorf("the metadata service got %d requests: %s", requests.Load(), r.err)
			}
			if printed != "" || strings.Contains(r.err, "SDK ") {
				t.Errorf("a library printed %q", printed)
			}
		})
	}
}

func TestTheControllerDecidesByItselfOnInstanceMetadata(t *testing.T) {
	laptopWithout(t)
	for _, command := range []string{"run", "child"} {
		prepare(command)
		if value, decided := os.LookupEnv("AWS_EC2_METADATA_DISABLED"); decided {
			t.Errorf("%s has %q", command, value)
		}
	}
}

func TestHelpFitsInAHundredColumns(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		r := execute(t, append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		// Examples are copied, and so is what has no space.
		text, _, _ := strings.Cut(r.out, "Examples:")
		for line := range strings.Lines(text) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 100 {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		for _, child := range cmd.Commands() {
			if !child.Hidden && child.Name() != "completion" {
				walk(child)
			}
		}
	}
	walk(newRoot(&connection{}, Streams{}))
}

func TestOptionsListsWhatHelpLeavesOut(t *testing.T) {
	r := execute(t, "options")
	for _, flag := range []string{"--as ", "--as-group ", "--cluster ", "--context ", "--request-timeout ", "--server ", "--user "} {
		if !strings.Contains(r.out, flag) {
			t.Errorf("it lacks %s:\n%s", flag, r.out)
		}
	}
	if strings.Contains(r.out, "--password") || strings.Contains(execute(t, "plan", "--help").out, "--as-group") {
		t.Errorf("it has another flag:\n%s", r.out)
	}
}
