package scaffold_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/cmd/internal/scaffold"
)

// eks has AWS be a server with one response to each request.
func eks(t *testing.T, status int, body string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/clusters/dev" {
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if _, err := w.Write([]byte(body)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"} {
		t.Setenv(name, value)
	}
}

const described = `{"cluster": {"arn": "arn:aws:eks:eu-west-1:444455556666:cluster/dev", "name": "dev",
	"resourcesVpcConfig": {"subnetIds": ["subnet-0a1", "subnet-0a2"], "clusterSecurityGroupId": "sg-0b1"}}}`

func TestTheRestIsReadFromEKS(t *testing.T) {
	for name, c := range map[string]struct {
		body      string
		in        scaffold.Values
		account   string
		subnets   []string
		groups    []string
		wantError string
		status    int
	}{
		"account, subnets and security group": {described, scaffold.Values{}, "444455556666", []string{"subnet-0a1", "subnet-0a2"}, []string{"sg-0b1"}, "", 200},
		"what is given stays":                 {described, scaffold.Values{Subnets: []string{"subnet-1"}, SecurityGroups: []string{"sg-1"}}, "444455556666", []string{"subnet-1"}, []string{"sg-1"}, "", 200},
		"a cluster that does not exist":       {`{"message": "no such cluster"}`, scaffold.Values{}, "", nil, nil, "give --account", 404},
		"an ARN that cannot be read":          {`{"cluster": {"arn": "dev"}}`, scaffold.Values{}, "", nil, nil, "give --account", 200},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.Cluster, c.in.Region = "dev", "eu-west-1"
			eks(t, c.status, c.body)
			got, err := c.in.Discover(t.Context())
			if c.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantError) {
					t.Errorf("%v lacks %q", err, c.wantError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := c.in
			want.Account, want.Subnets, want.SecurityGroups = c.account, c.subnets, c.groups
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWithoutCredentialsTheErrorNamesTheRemedyAndNoSourceOfTheSDK(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_ENDPOINT_URL"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	_, err := scaffold.Values{Cluster: "dev", Region: "eu-west-1"}.Discover(t.Context())
	if err == nil || !strings.Contains(err.Error(), "AWS_PROFILE") || !strings.Contains(err.Error(), "--account") || strings.Contains(err.Error(), "IMDS") {
		t.Errorf("the error is %v", err)
	}
}
