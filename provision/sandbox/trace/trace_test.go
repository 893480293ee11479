package trace

import "testing"

func TestARequestWritesWhereItChangesObjects(t *testing.T) {
	for _, c := range []struct {
		name string
		q    Request
		want bool
	}{
		{"a patch", Request{Wire: Kubernetes, Verb: "patch", Kind: "configmaps"}, true},
		{"a deletion of a collection", Request{Wire: Kubernetes, Verb: "deletecollection", Kind: "configmaps"}, true},
		{"a dry run does not", Request{Wire: Kubernetes, Verb: "patch", Kind: "configmaps", DryRun: true}, false},
		{"a list does not", Request{Wire: Kubernetes, Verb: "list", Kind: "configmaps"}, false},
		{"a review of permissions does not", Request{Wire: Kubernetes, Verb: "create", Kind: "selfsubjectaccessreviews.authorization.k8s.io"}, false},
		{"an operation of AWS", Request{Wire: AWS, Verb: "TerminateInstances", Kind: "ec2"}, true},
		{"one that reads does not", Request{Wire: AWS, Verb: "DescribeInstances", Kind: "ec2"}, false},
		{"one that is tried does not", Request{Wire: AWS, Verb: "CreateFleet", Kind: "ec2", DryRun: true}, false},
		{"a fetch does not", Request{Wire: Git, Verb: "post", Kind: "git-upload-pack"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.q.Writes(); got != c.want {
				t.Errorf("it writes: %v", got)
			}
		})
	}
}

func TestARequestSucceededByItsStatus(t *testing.T) {
	for status, want := range map[int]bool{0: false, 199: false, 200: true, 201: true, 299: true, 302: false, 409: false, 500: false} {
		if got := (&Request{Status: status}).Succeeded(); got != want {
			t.Errorf("with status %d it succeeded: %v", status, got)
		}
	}
}

func TestAnObjectIsNamedWithItsNamespaceIfItHasOne(t *testing.T) {
	for want, q := range map[string]Request{
		"configmaps apps/a": {Kind: "configmaps", Namespace: "apps", Name: "a"},
		"namespaces apps":   {Kind: "namespaces", Name: "apps"},
	} {
		if got := q.Object().String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
