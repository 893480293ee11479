package wiretap

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
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
		want                        trace.Request
	}{
		{"a list", "GET", "/api/v1/namespaces/apps/configmaps", "", trace.Request{Verb: "list", Kind: "configmaps", Namespace: "apps"}},
		{"a watch", "GET", "/apis/poolwright.dev/v1alpha1/syncs?watch=true", "", trace.Request{Verb: "watch", Kind: "syncs.poolwright.dev"}},
		{"a status", "PATCH", "/apis/poolwright.dev/v1alpha1/namespaces/system/syncs/dev/status", "{}",
			trace.Request{Verb: "patch", Kind: "syncs.poolwright.dev/status", Namespace: "system", Name: "dev"}},
		{"a creation, by the object's name", "POST", "/api/v1/namespaces/apps/secrets", `{"metadata":{"name":"a"}}`,
			trace.Request{Verb: "create", Kind: "secrets", Namespace: "apps", Name: "a"}},
		{"a creation of the price list", "POST", "/api/v1/namespaces/system/configmaps", `{"metadata":{"name":"poolwright-price-list"}}`,
			trace.Request{Verb: "create", Kind: ConfigMapsOfHistoryAndPrices, Namespace: "system", Name: "poolwright-price-list"}},
		{"a creation of the history", "POST", "/api/v1/namespaces/system/configmaps", `{"metadata":{"name":"poolwright-history-hours-0"}}`,
			trace.Request{Verb: "create", Kind: ConfigMapsOfHistoryAndPrices, Namespace: "system", Name: "poolwright-history-hours-0"}},
		{"a dry run", "PATCH", "/api/v1/namespaces/apps/secrets/a?dryRun=All", "{}",
			trace.Request{Verb: "patch", DryRun: true, Kind: "secrets", Namespace: "apps", Name: "a"}},
		{"a namespace, which is in none", "DELETE", "/api/v1/namespaces/apps", "", trace.Request{Verb: "delete", Kind: "namespaces", Name: "apps"}},
		{"what is no resource", "GET", "/openapi/v3/apis/apps/v1", "", trace.Request{Verb: "get", Kind: "/openapi"}},
		{"a lease in JSON", "PUT", "/apis/coordination.k8s.io/v1/namespaces/system/leases/poolwright", `{"spec":{"holderIdentity":"pod-1"}}`,
			trace.Request{Verb: "update", Kind: leases, Namespace: "system", Name: "poolwright", Holder: &holder}},
		{"a lease in Protobuf", "POST", "/apis/coordination.k8s.io/v1/namespaces/system/leases", inProtobuf(t, lease, "Lease"),
			trace.Request{Verb: "create", Kind: leases, Namespace: "system", Name: "poolwright", Holder: &holder}},
		{"a lease that is released", "PUT", "/apis/coordination.k8s.io/v1/namespaces/system/leases/poolwright", `{"spec":{}}`,
			trace.Request{Verb: "update", Kind: leases, Namespace: "system", Name: "poolwright", Holder: &none}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.Wire = trace.Kubernetes
			got := kubernetesRequest(httptest.NewRequest(c.method, c.path, nil), []byte(c.content))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, c := range []struct {
		name, method, path, content string
		want                        trace.Request
	}{
		{"the references of Git", "GET", "/team/nodes.git/info/refs?service=git-upload-pack", "",
			trace.Request{Wire: trace.Git, Verb: "get", Kind: "info/refs", Name: "team/nodes"}},
		{"a command of Git's version 2", "POST", "/team/nodes.git/git-upload-pack", "0014command=ls-refs\n0001",
			trace.Request{Wire: trace.Git, Verb: "post", Kind: "git-upload-pack ls-refs", Name: "team/nodes"}},
		{"Git's version 1", "POST", "/team/nodes.git/git-upload-pack", "0032want 0a53e9ddeaddad63ad106860237bbf53411d11a7\n",
			trace.Request{Wire: trace.Git, Verb: "post", Kind: "git-upload-pack", Name: "team/nodes"}},
		{"the comments of a pull request", "POST", "/api/v1/repos/team/nodes/issues/7/comments", "{}",
			trace.Request{Wire: trace.Forge, Verb: "post", Kind: "issues/comments", Name: "team/nodes#7"}},
		{"one comment", "PATCH", "/api/v1/repos/team/nodes/issues/comments/9", "{}",
			trace.Request{Wire: trace.Forge, Verb: "patch", Kind: "comments", Name: "9"}},
		{"the pull requests", "GET", "/api/v1/repos/team/nodes/pulls", "", trace.Request{Wire: trace.Forge, Verb: "get", Kind: "pulls", Name: "team/nodes"}},
		{"the user", "GET", "/api/v1/user", "", trace.Request{Wire: trace.Forge, Verb: "get", Kind: "user"}},
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
			if got := completed(Kubernetes(), trace.Request{}, content); got.UID != "a-b" {
				t.Errorf("its UID is %q", got.UID)
			}
		})
	}
	if got := completed(Kubernetes(), trace.Request{}, "no object"); got.UID != "" {
		t.Errorf("what is no object has UID %q", got.UID)
	}
	if got := completed(Forge(), trace.Request{}, `{"id":7}`); got.UID != "7" {
		t.Errorf("a comment has id %q", got.UID)
	}
}

// completed is a request with what a response adds to it.
func completed(p Protocol, q trace.Request, content string) trace.Request {
	p.Response(&q, []byte(content))
	return q
}

func TestAResponseNamesTheInstanceOfANodeClaimAndWhetherItIsGone(t *testing.T) {
	const claim = `{"kind":"NodeClaim","metadata":{"name":"a"%s},"status":{"providerID":"aws:///us-east-1a/i-00123456789abcdef"}}`
	status := trace.Request{Wire: trace.Kubernetes, Verb: "patch", Kind: "nodeclaims.karpenter.sh/status"}
	for _, c := range []struct {
		name, metadata string
		q              trace.Request
		instances      []string
		gone           bool
	}{
		{"a NodeClaim", "", status, []string{"i-00123456789abcdef"}, false},
		{"one that is deleted and has a finalizer", `,"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["f"]`, status, []string{"i-00123456789abcdef"}, false},
		{"one whose last finalizer went", `,"deletionTimestamp":"2026-01-01T00:00:00Z"`, status, []string{"i-00123456789abcdef"}, true},
		{"an object of another kind", "", trace.Request{Wire: trace.Kubernetes, Verb: "patch", Kind: "nodes"}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := completed(Kubernetes(), c.q, fmt.Sprintf(claim, c.metadata))
			if diff := cmp.Diff(c.instances, got.Instances); diff != "" || got.Gone != c.gone {
				t.Errorf("gone: %v\n%s", got.Gone, diff)
			}
		})
	}
}
