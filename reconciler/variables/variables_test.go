package variables

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/state"
)

func fixedKey(context.Context) ([]byte, error) { return []byte("a key of 16 bytes"), nil }

func noKey(context.Context) ([]byte, error) { return nil, errors.New("the key is not needed") }

// filledIn is what a text comes to.
func filledIn(t *testing.T, values substitute.Values, text string) string {
	t.Helper()
	out, problems, err := substitute.Apply([]manifest.Object{{Item: state.Item{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "text": text}}}}, values, substitute.Options{Strict: true})
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	got, _ := out[0].Object["text"].(string)
	return got
}

func TestVariablesComeFromTheSyncsReferences(t *testing.T) {
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	reader := fake.NewClientBuilder().WithObjects(
		&corev1.ConfigMap{ObjectMeta: meta("ns", "first"), Data: map[string]string{"A": "first", "B": "first", "C": "first", "D": "first"}},
		&corev1.ConfigMap{ObjectMeta: meta("ns", "second"), Data: map[string]string{"B": "second", "C": "second", "D": "second"}},
		&corev1.ConfigMap{ObjectMeta: meta("other", "elsewhere"), Data: map[string]string{"A": "elsewhere"}},
		&corev1.Secret{ObjectMeta: meta("ns", "secret"), Data: map[string][]byte{"S": []byte("hunter2")}},
	).Build()
	from := WithParameters(map[string]string{"C": "parameter"}, InCluster(reader, "ns"))
	ref := func(kind, name string) v1alpha1.SubstituteReference {
		return v1alpha1.SubstituteReference{Kind: kind, Name: name}
	}
	parameter := v1alpha1.SubstituteReference{Kind: "SSMParameter", Name: "/aws/service/x", Variable: "C"}
	absent := ref("ConfigMap", "absent")
	absent.Optional = true
	for name, c := range map[string]struct {
		from  []v1alpha1.SubstituteReference
		given map[string]string
		key   func(context.Context) ([]byte, error)
		want  string
		err   string
	}{
		"a later source wins, and spec.substitute over all": {
			from:  []v1alpha1.SubstituteReference{ref("ConfigMap", "first"), absent, ref("ConfigMap", "second"), parameter},
			given: map[string]string{"D": "given"}, want: "first second parameter given",
		},
		"the order of parameters counts, too": {
			from:  []v1alpha1.SubstituteReference{parameter, ref("ConfigMap", "first")},
			given: map[string]string{"D": "given"}, want: "first first first given",
		},
		"what is missing is named": {
			from: []v1alpha1.SubstituteReference{ref("ConfigMap", "first"), ref("Secret", "tokens")},
			err:  "wait VariablesNotFound: spec.substituteFrom names Secret tokens, which is not in namespace ns; create it there, or set optional: true",
		},
		"no other namespace is read": {
			from: []v1alpha1.SubstituteReference{ref("ConfigMap", "elsewhere")},
			err:  "wait VariablesNotFound: spec.substituteFrom names ConfigMap elsewhere, which is not in namespace ns; create it there, or set optional: true",
		},
		"a name that no variable can have is for the user to mend": {
			given: map[string]string{"a-b": "1"},
			err:   `stalled InvalidVariable: spec.substitute: "a-b" cannot be the name of a variable: use letters, digits and _, and do not start with a digit`,
		},
		"a Secret needs the key": {
			from: []v1alpha1.SubstituteReference{ref("Secret", "secret")}, err: "retry Failed: the key is not needed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.key == nil {
				c.key = noKey
			}
			sync := &v1alpha1.Sync{ObjectMeta: meta("ns", "dev"), Spec: v1alpha1.SyncSpec{SubstituteFrom: c.from, Substitute: c.given}}
			values, err := Values(t.Context(), sync, from, c.key)
			if err != nil || c.err != "" {
				class, reason, _ := state.Classify(err)
				if diff := cmp.Diff(c.err, class.String()+" "+reason+": "+err.Error()); diff != "" {
					t.Error(diff)
				}
				return
			}
			if got := filledIn(t, values, "${A} ${B} ${C} ${D}"); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
