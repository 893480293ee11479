package wiretap

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/poolwright/poolwright/provision/sandbox/history"
)

func inProtobuf(t *testing.T, object runtime.Object, kind string) string {
	t.Helper()
	object.GetObjectKind().SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind(kind))
	content, err := runtime.Encode(protobuf.NewSerializer(clientgoscheme.Scheme, clientgoscheme.Scheme), object)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestARequestIsNamed(t *testing.T) {
	holder, none := "pod-1", ""
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "poolwright"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
	const leases = "leases.coordination.k8s.io"
	for _, c := range []struct {
		name, method, path, content string
		want                        history.Request
	}{
		{"a list", "GET", "/api/v1/namespaces/apps/configmaps", "", history.Request{Verb: "list", Kind: "configmaps", Namespace: "apps"}},
		{"a watch", "GET", "/apis/poolwright.dev/v1alpha1/syncs?watch=true", "", history.Request{Verb: "watch", Kind: "syncs.poolwright.dev"}},
		{"a status", "PATCH", "/apis/poolwright.dev/v1alpha1/namespaces/system/syncs/dev/status", "{}",
			history.Request{Verb: "patch", Kind: "syncs.poolwright.dev/status", Namespace: "system", Name: "dev"}},
		{"a creation, by the object's name", "POST", "/api/v1/namespaces/apps/secrets", `{"metadata":{"name":"a"}}`,
			history.Request{Verb: "create", Kind: "secrets", Namespace: "apps", Name: "a"}},
		{"a dry run", "PATCH", "/api/v1/namespaces/apps/secrets/a?dryRun=All", "{}",
			history.Request{Verb: "patch (dry run)", Kind: "secrets", Namespace: "apps", Name: "a"}},
		{"a namespace, which is in none", "DELETE", "/api/v1/namespaces/apps", "", history.Request{Verb: "delete", Kind: "namespaces", Name: "apps"}},
		{"what is no resource", "GET", "/openapi/v3/apis/apps/v1", "", history.Request{Verb: "get", Kind: "/openapi"}},
		{"a lease in JSON", "PUT", "/apis/coordination.k8s.io/v1/namespaces/system/leases/poolwright", `{"spec":{"holderIdentity":"pod-1"}}`,
			history.Request{Verb: "update", Kind: leases, Namespace: "system", Name: "poolwright", Holder: &holder}},
		{"a lease in Protobuf", "POST", "/apis/coordination.k8s.io/v1/namespaces/system/leases", inProtobuf(t, lease, "Lease"),
			history.Request{Verb: "create", Kind: leases, Namespace: "system", Name: "poolwright", Holder: &holder}},
		{"a lease that is released", "PUT", "/apis/coordination.k8s.io/v1/namespaces/system/leases/poolwright", `{"spec":{}}`,
			history.Request{Verb: "update", Kind: leases, Namespace: "system", Name: "poolwright", Holder: &none}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.Wire = history.Kubernetes
			got := kubernetesRequest(httptest.NewRequest(c.method, c.path, nil), []byte(c.content))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, c := range []struct {
		name, method, path, content string
		want                        history.Request
	}{
		{"the references of Git", "GET", "/team/nodes.git/info/refs?service=git-upload-pack", "",
			history.Request{Wire: history.Git, Verb: "get", Kind: "info/refs", Name: "team/nodes"}},
		{"a command of Git's version 2", "POST", "/team/nodes.git/git-upload-pack", "0014command=ls-refs\n0001",
			history.Request{Wire: history.Git, Verb: "post", Kind: "git-upload-pack ls-refs", Name: "team/nodes"}},
		{"Git's version 1", "POST", "/team/nodes.git/git-upload-pack", "0032want 0a53e9ddeaddad63ad106860237bbf53411d11a7\n",
			history.Request{Wire: history.Git, Verb: "post", Kind: "git-upload-pack", Name: "team/nodes"}},
		{"the comments of a pull request", "POST", "/api/v1/repos/team/nodes/issues/7/comments", "{}",
			history.Request{Wire: history.Forge, Verb: "post", Kind: "issues/comments", Name: "team/nodes#7"}},
		{"one comment", "PATCH", "/api/v1/repos/team/nodes/issues/comments/9", "{}",
			history.Request{Wire: history.Forge, Verb: "patch", Kind: "comments", Name: "9"}},
		{"the pull requests", "GET", "/api/v1/repos/team/nodes/pulls", "", history.Request{Wire: history.Forge, Verb: "get", Kind: "pulls", Name: "team/nodes"}},
		{"the user", "GET", "/api/v1/user", "", history.Request{Wire: history.Forge, Verb: "get", Kind: "user"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, gitOrForge(httptest.NewRequest(c.method, c.path, strings.NewReader(c.content)), []byte(c.content))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAResponseNamesItsObject(t *testing.T) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{UID: "a-b"}}
	for name, content := range map[string]string{
		"an object":                       `{"kind":"ConfigMap","metadata":{"uid":"a-b"}}`,
		"an object in Protobuf":           inProtobuf(t, lease, "Lease"),
		"what the status of a DELETE has": `{"kind":"Status","metadata":{},"status":"Success","details":{"name":"a","uid":"a-b"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if got := Kubernetes().UID([]byte(content)); got != "a-b" {
				t.Errorf("its UID is %q", got)
			}
		})
	}
	if got := Kubernetes().UID([]byte("no object")); got != "" {
		t.Errorf("what is no object has UID %q", got)
	}
	if got := Forge().UID([]byte(`{"id":7}`)); got != "7" {
		t.Errorf("a comment has id %q", got)
	}
}
