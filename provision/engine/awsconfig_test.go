package engine

import (
	"os"
	"strings"
	"testing"
)

// cleanAWS hides the machine's own AWS settings from a test.
func cleanAWS(t *testing.T) {
	t.Helper()
	for _, line := range os.Environ() {
		if name, _, _ := strings.Cut(line, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "") // restored after the test
			os.Unsetenv(name)
		}
	}
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

func TestLoadAWS(t *testing.T) {
	for _, test := range []struct {
		name    string
		env     map[string]string
		file    string
		message string
	}{
		{name: "no override is the real AWS"},
		{name: "a loopback address is the sandbox", env: map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}},
		{name: "localhost is the sandbox", env: map[string]string{"AWS_ENDPOINT_URL": "http://localhost:4566"}},
		{name: "IPv6 loopback is the sandbox", env: map[string]string{"AWS_ENDPOINT_URL": "http://[::1]:4566"}},
		{name: "another host is refused", env: map[string]string{"AWS_ENDPOINT_URL": "http://10.0.0.7:4566"}, message: `"10.0.0.7", which is not loopback`},
		{name: "a name that begins like loopback is refused", env: map[string]string{"AWS_ENDPOINT_URL": "http://localhost.example.com"}, message: "not loopback"},
		{name: "a password in it is not repeated", env: map[string]string{"AWS_ENDPOINT_URL": "http://u:hunter2@example.com"}, message: `"example.com"`},
		{name: "no URL at all is refused", env: map[string]string{"AWS_ENDPOINT_URL": "127.0.0.1:4566"}, message: "not a URL with a host"},
		{name: "one service elsewhere is refused", env: map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ENDPOINT_URL_EC2": "https://ec2.example.com"}, message: "AWS_ENDPOINT_URL_EC2"},
		{name: "one service in the sandbox and the rest real is refused", env: map[string]string{"AWS_ENDPOINT_URL_SQS": "http://127.0.0.1:1"}, message: "AWS_ENDPOINT_URL_SQS is set without AWS_ENDPOINT_URL"},
		{name: "an override that the SDK ignores is refused", env: map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, message: "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"},
		{name: "an override by file is read too", file: "[default]\nendpoint_url = https://example.com\n", message: `"example.com", which is not loopback`},
	} {
		t.Run(test.name, func(t *testing.T) {
			cleanAWS(t)
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			if test.file != "" {
				path := t.TempDir() + "/config"
				if err := os.WriteFile(path, []byte(test.file), 0o600); err != nil {
					t.Fatal(err)
				}
				t.Setenv("AWS_CONFIG_FILE", path)
			}
			t.Setenv("AWS_REGION", "eu-west-1")
			cfg, err := LoadAWS(t.Context(), valid().Region)
			if test.message == "" {
				if err != nil {
					t.Fatal(err)
				}
				if cfg.Region != "us-east-1" {
					t.Errorf("the region is %s, not the settings'", cfg.Region)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.message) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %q", err, test.message)
			}
		})
	}
}
