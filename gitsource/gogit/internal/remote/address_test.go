package remote

import (
	"errors"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/internal/dial"
)

// secret is what no message may repeat.
const secret = "hunter2-s3cret"

// FuzzURL gives any address: one that is taken has a host, a path and no secret, is
// encrypted or goes to this machine, and a refusal never repeats it. One of ssh has a user.
func FuzzURL(f *testing.F) {
	for _, s := range []string{"https://host/a/b.git", "http://127.0.0.1:3000/x", "https://user:hunter2-s3cret@host/x", "http://[::1]/x", "ssh://git@host/x", "ssh://git:hunter2-s3cret@host:22/x", "git@host:x", "https://host/x?token=hunter2-s3cret"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := ParseURL(raw)
		if err != nil {
			if !errors.Is(err, gitsource.ErrInvalid) {
				t.Errorf("unclassified: %v", err)
			}
			// A scheme is repeated, and nothing else.
			if scheme, rest, _ := strings.Cut(raw, ":"); strings.Contains(rest, secret) && !strings.Contains(strings.ToLower(scheme), secret) && strings.Contains(err.Error(), secret) {
				t.Errorf("the password is in the message: %v", err)
			}
			return
		}
		_, hasPassword := u.User.Password()
		if u.Host == "" || hasPassword || (u.User != nil) != (u.Scheme == "ssh") || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") == "" {
			t.Errorf("%q is taken", raw)
		}
		if u.Scheme != "https" && u.Scheme != "ssh" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
			t.Errorf("%q is taken, in clear", raw)
		}
		if again, err := url.Parse(u.String()); err != nil || sameOrigin(u, again) != nil {
			t.Errorf("%q is read otherwise as %q", raw, u)
		}
	})
}

func TestAddressesOfHostedServersAreTakenWhereTheirGitIsSupported(t *testing.T) {
	const azure = "let Flux fetch it, by a GitRepository with provider: azure"
	for name, test := range map[string]struct{ address, refused string }{
		"CodeCommit by https":                        {address: "https://git-codecommit.eu-central-1.amazonaws.com/v1/repos/nodes"},
		"CodeCommit by ssh, with the id of the key":  {address: "ssh://APKAEIBAERJR2EXAMPLE@git-codecommit.eu-central-1.amazonaws.com/v1/repos/nodes"},
		"CodeCommit by ssh without a user":           {address: "ssh://git-codecommit.eu-central-1.amazonaws.com/v1/repos/nodes", refused: "it names no user"},
		"CodeCommit by git-remote-codecommit":        {address: "codecommit::eu-central-1://nodes", refused: "is not of the form https://"},
		"Azure DevOps by https":                      {address: "https://dev.azure.com/example/platform/_git/nodes", refused: azure},
		"Azure DevOps by ssh":                        {address: "ssh://git@ssh.dev.azure.com/v3/example/platform/nodes", refused: azure},
		"Azure DevOps as its page has it by https":   {address: "https://example@dev.azure.com/example/platform/_git/nodes", refused: azure},
		"Azure DevOps as its page has it by ssh":     {address: "git@ssh.dev.azure.com:v3/example/platform/nodes", refused: azure},
		"Azure DevOps by its earlier name":           {address: "https://example.visualstudio.com/platform/_git/nodes", refused: azure},
		"Azure DevOps by its earlier name, by ssh":   {address: "ssh://example@vs-ssh.visualstudio.com:22/v3/example/platform/nodes", refused: azure},
		"Azure DevOps in capitals and with a dot":    {address: "https://Dev.Azure.com./example/platform/_git/nodes", refused: azure},
		"another host whose name ends alike":         {address: "https://visualstudio.com.example.com/nodes"},
		"another host whose name begins differently": {address: "https://git-dev.azure.com/nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseURL(test.address)
			if test.refused == "" && err != nil || test.refused != "" && (!errors.Is(err, gitsource.ErrInvalid) || !strings.Contains(err.Error(), test.refused)) {
				t.Errorf("%v, want %q", err, test.refused)
			}
		})
	}
}

func TestAddressesOfMetadataServicesAreNotConnectedTo(t *testing.T) {
	for address, refused := range map[string]bool{
		"169.254.169.254:80": true, "[fd00:ec2::254]:80": true, "[::ffff:169.254.169.254]:80": true, "[fe80::1%eth0]:443": true,
		"0.0.0.0:443": true, "224.0.0.1:443": true, "10.0.0.1:443": false, "127.0.0.1:443": false, "192.0.2.1:443": false,
	} {
		if err := checkAddress(address, false); (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
	if checkAddress("192.0.2.1:80", true) == nil {
		t.Error("plain http left this machine")
	}
	u, _ := url.Parse("https://169.254.169.254/x")
	client, err := newHTTPClient(u, Credentials{}, Limits{PackBytes: 256 << 20, IdleTimeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Get(u.String()); !errors.Is(err, dial.ErrForbidden) {
		t.Errorf("got %v", err)
	}
}

// TestThePathOfACommandIsOneArgumentOfAShell has a shell parse what is sent to a server.
func TestThePathOfACommandIsOneArgumentOfAShell(t *testing.T) {
	for address, want := range map[string]string{
		"ssh://git@host/team/nodes.git":                   "/team/nodes.git",
		"ssh://git@host/~ada/nodes":                       "~ada/nodes",
		"ssh://git@host/a%20b":                            "/a b",
		"ssh://git@host/it's;id;$(id)`id`!x":              "/it's;id;$(id)`id`!x",
		"ssh://git@host/%27;id;%27":                       "/';id;'",
		"ssh://git@host/-oProxyCommand=x/--upload-pack=y": "/-oProxyCommand=x/--upload-pack=y",
	} {
		u, err := ParseURL(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		arguments, ok := strings.CutPrefix(uploadPackCommand(u), "git-upload-pack ")
		if !ok {
			t.Errorf("%s runs %s", address, uploadPackCommand(u))
		}
		got, err := exec.Command("sh", "-c", `printf '%s\n' `+arguments).Output()
		if err != nil || string(got) != want+"\n" {
			t.Errorf("%s gives %q, %v", address, got, err)
		}
	}
}

// TestSSHReachesNoMetadataService: the address is checked before a connection is made.
func TestSSHReachesNoMetadataService(t *testing.T) {
	for _, address := range []string{"169.254.169.254:22", "[fe80::1%lo]:22", "[fd00:ec2::254]:22", "0.0.0.0:22"} {
		s := &sshServer{address: address, stall: time.Minute}
		if _, err := s.dial(t.Context()); !errors.Is(err, dial.ErrForbidden) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
