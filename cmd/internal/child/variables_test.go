package child

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/declared/substitute/fluxexpr"
)

func TestAChildSubstitutesVariablesAndGetsNoSecret(t *testing.T) {
	values, err := substitute.NewValues(fluxexpr.Parse, []byte("a key of 16 bytes"),
		substitute.Secret("Secret ns/vars", map[string][]byte{"TOKEN": []byte("hunter2")}),
		substitute.Public("spec.substitute", map[string]string{"NAME": "gpu"}))
	if err != nil {
		t.Fatal(err)
	}
	tree := fstest.MapFS{"a/a.yaml": &fstest.MapFile{Data: []byte("apiVersion: v1\nkind: Secret\nmetadata: {name: '${NAME}'}\nstringData: {token: '${TOKEN}'}\n")}}
	got, err := (&Runner{}).Load(t.Context(), tree, "a", values)
	if err != nil || len(got.Problems) > 0 || got.Set.Len() != 1 {
		t.Fatal(got.Problems, err)
	}
	secret := got.Set.Items()[0]
	if secret.Key.Name != "gpu" {
		t.Errorf("the name is %q", secret.Key.Name)
	}
	revealed, err := substitute.Reveal(secret.Object, values)
	if err != nil {
		t.Fatal(err)
	}
	if data, _ := revealed["stringData"].(map[string]any); data["token"] != "hunter2" {
		t.Errorf("the token is %v", data["token"])
	}
	// Nothing that a child is told has the value.
	sealed, err := values.Encode()
	if err != nil {
		t.Fatal(err)
	}
	request, err := json.Marshal(loadRequest{Folder: "a", Values: sealed})
	if err != nil {
		t.Fatal(err)
	}
	if raw, _ := json.Marshal(got.Set.Items()); strings.Contains(string(sealed)+string(request)+string(raw), "hunter2") {
		t.Error("the value of the Secret leaves the process")
	}
}

func TestVariablesThatCannotBeReadEndAChildWithAnError(t *testing.T) {
	var requested, responded bytes.Buffer
	request, err := json.Marshal(loadRequest{Folder: "a", Values: []byte("{")})
	if err != nil {
		t.Fatal(err)
	}
	if err := (&writer{to: &requested, remaining: maxExchange}).send(frameRequest, request); err != nil {
		t.Fatal(err)
	}
	in, done := io.Pipe()
	defer done.Close()
	go func() { _, _ = done.Write(requested.Bytes()) }()
	if err := Serve(t.Context(), verbLoad, in, &responded); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(responded.String(), "reading sealed variables") {
		t.Errorf("answered %q", responded.String())
	}
}
