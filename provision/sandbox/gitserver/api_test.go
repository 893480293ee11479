package gitserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// request is one that the server got: method, escaped path, login and body.
type request struct{ Method, Path, Login, Body string }

// emulated has a Server call a handler in the place of Gitea.
func emulated(t *testing.T, handle http.HandlerFunc) (*Server, *[]request) {
	t.Helper()
	var got []request
	gitea := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		login := r.Header.Get("Authorization")
		if name, password, ok := r.BasicAuth(); ok {
			login = name + ":" + password
		}
		got = append(got, request{r.Method, r.URL.EscapedPath(), login, string(body)})
		handle(w, r)
	}))
	t.Cleanup(gitea.Close)
	address, err := url.Parse(gitea.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, text, err := net.SplitHostPort(address.Host)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return &Server{client: gitea.Client(), port: port, admin: Account{Name: "platform", Token: "admin-token"}}, &got
}

func respond(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func TestAnythingButASuccessIsAStatusErrorWithItsMessage(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for name, tt := range map[string]struct {
		code    int
		body    string
		message string
	}{
		"Gitea's message":               {422, `{"message": "repository exists"}`, "repository exists"},
		"a text that is no JSON":        {502, " bad gateway \n", "bad gateway"},
		"JSON without a message":        {404, `{"errors": null}`, `{"errors": null}`},
		"JSON of another shape":         {500, `["x"]`, `["x"]`},
		"nothing":                       {401, "", ""},
		"no more than the beginning":    {500, long, long[:200]},
		"a redirect that leads nowhere": {304, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := emulated(t, respond(tt.code, tt.body))
			err := s.Call(t.Context(), s.admin, http.MethodGet, "/x", nil, nil)
			var refused *StatusError
			if !errors.As(err, &refused) {
				t.Fatalf("%v", err)
			}
			if diff := cmp.Diff(StatusError{Method: "GET", Path: "/x", Code: tt.code, Message: tt.message}, *refused); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAResponseThatCannotBeReadIsAnError(t *testing.T) {
	var into struct{ Number int }
	for name, handle := range map[string]http.HandlerFunc{
		"no JSON":               respond(200, "<html>"),
		"nothing at all":        respond(200, ""),
		"a number that is text": respond(200, `{"Number": "x"}`),
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"Number": 1}`)
		},
		"longer than a page": respond(200, `{"Number": 1, "x": "`+strings.Repeat("x", 17<<20)+`"}`),
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := emulated(t, handle)
			err := s.Call(t.Context(), s.admin, http.MethodGet, "/x", nil, &into)
			var refused *StatusError
			if err == nil || errors.As(err, &refused) {
				t.Errorf("%v", err)
			}
		})
	}
	s, requests := emulated(t, respond(200, "<html>"))
	if err := s.Call(t.Context(), s.admin, http.MethodGet, "/x", nil, nil); err != nil {
		t.Errorf("a response that nobody wants is decoded: %v", err)
	}
	if err := s.Call(t.Context(), s.admin, http.MethodPost, "/x", make(chan int), nil); err == nil || len(*requests) != 1 {
		t.Errorf("a body that is no JSON is sent: %v", err)
	}
}

// Names come from a test or a demo: what stands in one must not lead to another path.
func TestNamesAreEscapedInPaths(t *testing.T) {
	s, requests := emulated(t, respond(200, `{"sha1": "secret", "number": 7, "empty": false}`))
	ada, in := Account{Name: "a/b", Password: "p", Token: "t"}, Repository{Owner: "o?", Name: "r/../x"}
	if err := s.DeleteBranch(t.Context(), ada, in, "feature/x#1"); err != nil {
		t.Fatal(err)
	}
	if err := s.RenameBranch(t.Context(), ada, in, "a", "b/c"); err != nil {
		t.Fatal(err)
	}
	token, err := s.CreateToken(t.Context(), ada, "read", "read:repository")
	if err != nil || token != "secret" {
		t.Fatal(token, err)
	}
	want := []request{
		{"DELETE", "/api/v1/repos/o%3F/r%2F..%2Fx/branches/feature%2Fx%231", "token t", ""},
		{"PATCH", "/api/v1/repos/o%3F/r%2F..%2Fx/branches/a", "token t", `{"name":"b/c"}`},
		// No token makes another one: the password is sent.
		{"POST", "/api/v1/users/a%2Fb/tokens", "a/b:p", `{"name":"read","scopes":["read:repository"]}`},
	}
	if diff := cmp.Diff(want, *requests); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAUserIsMadeByTheAdministratorAndGetsATokenByThePassword(t *testing.T) {
	s, requests := emulated(t, respond(201, `{"sha1": "secret"}`))
	one, err := s.CreateUser(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.CreateUser(t.Context(), "bob")
	if err != nil {
		t.Fatal(err)
	}
	if one.Token != "secret" || len(one.Password) < 20 || one.Password == two.Password {
		t.Error("the passwords are short, or the same")
	}
	logins := []string{}
	for _, r := range *requests {
		logins = append(logins, r.Login)
	}
	if diff := cmp.Diff([]string{"token admin-token", "ada:" + one.Password, "token admin-token", "bob:" + two.Password}, logins); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var sent map[string]any
	if err := json.Unmarshal([]byte((*requests)[0].Body), &sent); err != nil || sent["password"] != one.Password || sent["must_change_password"] != false {
		t.Errorf("%v, %v", sent, err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if text := fmt.Sprintf(verb, one) + fmt.Sprintf(verb, &one) + fmt.Sprintf(verb, []Account{one}); strings.Contains(text, one.Password) || strings.Contains(text, one.Token) {
			t.Errorf("%s prints a secret", verb)
		}
	}
}

// Gitea knows a branch a moment after it was pushed; until then the repository is empty,
// or the branch not found.
func TestAPullRequestWaitsForItsBranches(t *testing.T) {
	reads := map[string]int{}
	s, requests := emulated(t, func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/api/v1/repos/o/r")
		reads[path]++
		switch {
		case path == "":
			respond(200, fmt.Sprintf(`{"empty": %t}`, reads[path] < 3))(w, r)
		case reads[""] < 3: // This version of Gitea panics.
			t.Errorf("an empty repository is requested for %s", path)
		case path == "/pulls":
			respond(201, `{"number": 7}`)(w, r)
		case reads[path] < 2:
			respond(404, `{"message": "not found"}`)(w, r)
		default:
			respond(200, "{}")(w, r)
		}
	})
	number, err := s.CreatePullRequest(t.Context(), s.admin, Repository{Owner: "o", Name: "r"}, PullRequest{Head: "change", Base: "main", Title: "t"})
	if err != nil || number != 7 {
		t.Fatal(number, err)
	}
	if reads["/branches/main"] != 2 || reads["/branches/change"] != 2 || reads["/pulls"] != 1 {
		t.Errorf("%v", reads)
	}
	if last := (*requests)[len(*requests)-1]; last.Path != "/api/v1/repos/o/r/pulls" {
		t.Errorf("the last request is %+v", last)
	}
}

func TestABranchThatCannotBeReadEndsTheWait(t *testing.T) {
	for _, forbidden := range []string{"/api/v1/repos/o/r", "/api/v1/repos/o/r/branches/main"} {
		s, _ := emulated(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == forbidden {
				respond(403, `{"message": "no"}`)(w, r)
				return
			}
			respond(200, `{"empty": false}`)(w, r)
		})
		var refused *StatusError
		if err := s.AwaitBranch(t.Context(), s.admin, Repository{Owner: "o", Name: "r"}, "main"); !errors.As(err, &refused) || refused.Code != 403 {
			t.Errorf("%s is forbidden: %v", forbidden, err)
		}
	}
}
