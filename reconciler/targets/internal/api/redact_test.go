package api

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const planted = "s3cr3t-value-77"

// env is a structure that holds the planted secret.
type env struct{ Name, Value string }

func invalid(list ...*field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "llm", list)
}

func TestRefusalsRepeatNoContent(t *testing.T) {
	spec := field.NewPath("spec")
	token := env{"API_TOKEN", planted}
	dump := "pod updates may not change fields other than `spec.containers[*].image`\n\u00a0\u00a0core.PodSpec{\n- \tValue: \"" + planted + "\",\n\u00a0\u00a0}\n"
	tests := []struct {
		name    string
		err     error
		message []string
	}{
		{"a difference of two specs", invalid(field.Forbidden(spec, dump)), []string{"spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`"}},
		{"a dump does not hide the next problem", invalid(field.Forbidden(spec, dump), field.Required(spec.Child("nodeName"), "for a reason")),
			[]string{"spec: Forbidden", "spec.nodeName: Required value: for a reason"}},
		{"a structure as JSON", invalid(field.Invalid(spec.Child("template"), token, "field is immutable")),
			[]string{"spec.template: Invalid value: ***: field is immutable"}},
		{"a list as JSON", invalid(field.Invalid(spec.Child("args"), []string{"--token=" + planted}, "too many")), []string{"spec.args: Invalid value: ***: too many"}},
		{"a structure in Go's form", status(422, metav1.StatusReasonInvalid, `spec.template: Invalid value: core.PodTemplateSpec{Env:[]core.EnvVar{core.EnvVar{Name:"A: ", Value:"`+planted+`"}}}: field is immutable`),
			[]string{"spec.template: Invalid value: ***: field is immutable"}},
		{"a pointer in Go's form", status(422, metav1.StatusReasonInvalid, `spec: wrong: &{Name:API_TOKEN Value:`+planted+`}`), []string{"spec: wrong: ***"}},
		{"a map in Go's form", status(422, metav1.StatusReasonInvalid, `spec: wrong: map[API_TOKEN:`+planted+`]`), []string{"spec: wrong: ***"}},
		{"a long string", invalid(field.Invalid(spec.Child("text"), strings.Repeat("x", 80)+planted, "no")), []string{"spec.text: Invalid value: ***: no"}},
		{"a text of many lines", invalid(field.Invalid(spec.Child("text"), "a\n"+planted, "no")), []string{"spec.text: Invalid value: ***: no"}},
		{"a value of another type", status(500, "", untyped+` (default/llm; v1, Kind=Pod): .spec.containers[name="c"].env[name="A"].value: expected string, got &value.valueUnstructured{Value:"`+planted+`"}`),
			[]string{`spec.containers[name="c"].env[name="A"].value: expected string, got ***`}},
		{"a decoder's surroundings", status(400, metav1.StatusReasonBadRequest, `cannot read it, error found in #10 byte of ...|alue":"`+planted+`"|..., bigger context ...|x|...`), []string{"cannot read it, ***"}},
		{"a webhook's message", status(403, metav1.StatusReasonForbidden, `admission webhook "w" denied the request: {"value":"`+planted+`"}`), []string{`admission webhook "w" denied the request: ***`}},
		{"an object that is reported missing", status(404, metav1.StatusReasonNotFound, `spec: Not found: {"value":"`+planted+`"}`), []string{"spec: Not found: ***"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, err := range []error{tt.err, fmt.Errorf("more: %w", tt.err)} {
				got := Refused("doing it", err, false).Error()
				if strings.Contains(got, planted) {
					t.Errorf("leaks: %s", got)
				}
				for _, text := range tt.message {
					if !strings.Contains(got, text) {
						t.Errorf("%q does not say %q", got, text)
					}
				}
			}
		})
	}
}

func TestRefusalsKeepWhatHelps(t *testing.T) {
	for _, text := range []string{
		`Pod "A_b" is invalid: metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of '-' or '.' (regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		`spec.id: Invalid value: "x": spec.id in body should match '^[a-z]{1,3}[0-9]{4}$'`,
		`spec.weight: Invalid value: 1000: spec.weight in body should be less than or equal to 100`,
		`spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"`,
		`[spec.a: Invalid value: true: no, spec.b: Invalid value: "object": one of a and b, not both]`,
		"the policy says\n\nrequire-labels:\n  check: 'validation error: a team label is needed'",
	} {
		if got := undump(text); got != text {
			t.Errorf("%s\nbecame\n%s", text, got)
		}
	}
}
