package aws_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// sdkClients are the SDK's clients of all services that are emulated, by name; over
// is nil for the SDK's own HTTP client.
func sdkClients(url string, over sdk.HTTPClient, options ...func(*middleware.Stack) error) map[string]any {
	c := sdk.Config{Region: "us-east-1", BaseEndpoint: &url, RetryMaxAttempts: 1, HTTPClient: over, APIOptions: options,
		Credentials: sdk.CredentialsProviderFunc(func(context.Context) (sdk.Credentials, error) {
			return sdk.Credentials{AccessKeyID: "EMULATED", SecretAccessKey: "EMULATED"}, nil
		})}
	return map[string]any{
		"ec2": ec2.NewFromConfig(c), "iam": iam.NewFromConfig(c), "sts": sts.NewFromConfig(c), "ssm": ssm.NewFromConfig(c),
		"sqs": sqs.NewFromConfig(c), "events": eventbridge.NewFromConfig(c), "logs": cloudwatchlogs.NewFromConfig(c),
		"servicequotas": servicequotas.NewFromConfig(c), "pricing": pricing.NewFromConfig(c), "eks": eks.NewFromConfig(c),
		"arc-zonal-shift": arczonalshift.NewFromConfig(c),
	}
}

// sdkMethod is an operation of a client, with a fresh input.
type sdkMethod struct{ call, input reflect.Value }

func method(t *testing.T, client any, op string) sdkMethod {
	t.Helper()
	m := reflect.ValueOf(client).MethodByName(op)
	if !m.IsValid() {
		t.Fatalf("the SDK has no operation %s", op)
	}
	return sdkMethod{m, reflect.New(m.Type().In(1).Elem())}
}

// output makes the call with the input.
func (m sdkMethod) output(ctx context.Context) (reflect.Value, error) {
	out := m.call.Call([]reflect.Value{reflect.ValueOf(ctx), m.input})
	err, _ := reflect.TypeAssert[error](out[1])
	return out[0], err
}

// run makes the call for its error.
func (m sdkMethod) run(ctx context.Context) error {
	_, err := m.output(ctx)
	return err
}

var requiredForm = regexp.MustCompile(`missing required field, \w+\.([^ ]+)\.\n`)

// missing are the paths, as in Tags[0].Key, that the SDK's validator misses in
// the input. It sends nothing: a call whose validation passes ends with its
// context.
func (m sdkMethod) missing() []string {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var invalid smithy.InvalidParamsError
	if !errors.As(m.run(ctx), &invalid) {
		return nil
	}
	var out []string
	for _, found := range requiredForm.FindAllStringSubmatch(invalid.Error()+"\n", -1) {
		out = append(out, found[1])
	}
	return out
}

// filled gives a struct's members of the kinds that hold others one empty
// value, down to a depth, so that a validator enters them.
func filled(v reflect.Value, depth int) {
	for _, f := range v.Fields() {
		if !f.CanSet() || depth == 0 {
			continue
		}
		switch {
		case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct && f.Type() != reflect.TypeFor[*time.Time]():
			f.Set(reflect.New(f.Type().Elem()))
			filled(f.Elem(), depth-1)
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
			filled(f.Index(0), depth-1)
		}
	}
}

// satisfy fills in what the validator misses, but for one path.
func (m sdkMethod) satisfy(but string) {
	for {
		paths := slices.DeleteFunc(m.missing(), func(p string) bool { return p == but })
		if len(paths) == 0 {
			return
		}
		for _, p := range paths {
			set(at(m.input.Elem(), p))
		}
	}
}

// at is the value at a path; what is on the way there is made.
func at(v reflect.Value, path string) reflect.Value {
	for step := range strings.SplitSeq(path, ".") {
		name, index, inList := strings.Cut(strings.TrimSuffix(step, "]"), "[")
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.FieldByName(name)
		if n, err := strconv.Atoi(index); inList && err == nil {
			if v.Len() <= n {
				v.Set(reflect.MakeSlice(v.Type(), n+1, n+1))
			}
			v = v.Index(n)
		}
	}
	return v
}

// set gives a member any value of its kind.
func set(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		set(v.Elem())
	case reflect.String:
		v.SetString("x")
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		set(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		set(value)
		v.SetMapIndex(reflect.ValueOf("x").Convert(v.Type().Key()), value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)))
		}
		setMembers(v)
	default:
	}
}

// setMembers fills in a struct's plain members, or the first of the others, so
// that the struct is not empty at the wire.
func setMembers(v reflect.Value) {
	plain := false
	for _, f := range v.Fields() {
		if f.CanSet() && (f.Kind() == reflect.String || f.Kind() == reflect.Pointer && f.Type().Elem().Kind() != reflect.Struct) {
			set(f)
			plain = true
		}
	}
	for _, f := range v.Fields() {
		if f.CanSet() && f.Kind() == reflect.Pointer && !plain {
			set(f)
			plain = true
		}
	}
}

// isForm tells the services whose requests are forms.
func isForm(service string) bool { return service == "ec2" || service == "iam" || service == "sts" }

// unchecked lets a client send what its own validator would refuse.
func unchecked(stack *middleware.Stack) error {
	_, _ = stack.Initialize.Remove("OperationInputValidation") // some operations have none
	return nil
}

var lackForm = regexp.MustCompile(`^(The request must contain the parameter|1 validation error detected: Value (null|'') at) `)

// incomplete reports whether the last request had a path in which the SDK left the name of
// a member in braces for want of its value: no client can send a request without that member.
type incomplete struct{ atomic.Bool }

func (i *incomplete) record(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.Store(strings.Contains(r.URL.Path, "{"))
		inner.ServeHTTP(w, r)
	})
}

// TestAMissingMemberIsAValidationError asks every operation, without one of the
// members that the SDK's model requires, each in its turn: the answer must be the
// service's error for an invalid request, and never that something is not there.
func TestAMissingMemberIsAValidationError(t *testing.T) {
	cloud, err := sandboxaws.New(sandboxaws.DefaultConfig())
	ok(t, err)
	emulated, _ := cloud.Model()
	path := &incomplete{}
	server := httptest.NewServer(path.record(cloud))
	defer server.Close()
	validating, sending := sdkClients(server.URL, nil), sdkClients(server.URL, nil, unchecked)
	codes := map[string]string{"ec2": "MissingParameter", "sqs": "MissingParameter", "iam": "ValidationError", "logs": "InvalidParameterException", "eks": "InvalidParameterException"}
	tried := 0
	for _, name := range slices.Sorted(maps.Keys(emulated)) {
		want := codes[name]
		if want == "" {
			want = "ValidationException"
		}
		for _, op := range slices.Sorted(maps.Keys(emulated[name])) {
			all := method(t, validating[name], op)
			paths := all.missing()
			filled(all.input.Elem(), 6)
			for _, member := range append(paths, all.missing()...) {
				m := method(t, validating[name], op)
				if cut := strings.LastIndexByte(member, '.'); cut > 0 {
					parent := at(m.input.Elem(), member[:cut])
					set(parent)
					at(m.input.Elem(), member).SetZero()
					if reflect.Indirect(parent).NumField() == 2 && isForm(name) {
						continue // it had nothing but that member, so a form has nothing of it
					}
				}
				m.satisfy(member)
				send := sdkMethod{method(t, sending[name], op).call, m.input}
				err := send.run(t.Context())
				var api smithy.APIError
				switch {
				case path.Load():
					continue
				case !errors.As(err, &api):
					t.Errorf("%s %s without %s: no error of the service: %v", name, op, member, err)
				case api.ErrorCode() == "UnknownParameter", strings.Contains(api.ErrorMessage(), "unknown field"):
					continue // a setting that is not emulated
				case api.ErrorCode() != want || !lackForm.MatchString(api.ErrorMessage()):
					t.Errorf("%s %s without %s: %v", name, op, member, err)
				}
				tried++
			}
		}
	}
	if tried < 150 {
		t.Errorf("%d members were tried: the SDK's validators were not read", tried)
	}
}

// TestNothingElseIsRequired finds a name in the table of required members that
// the model does not have: with all that the model requires no member lacks.
func TestNothingElseIsRequired(t *testing.T) {
	cloud, err := sandboxaws.New(sandboxaws.DefaultConfig())
	ok(t, err)
	emulated, required := cloud.Model()
	server := httptest.NewServer(cloud)
	defer server.Close()
	clients := sdkClients(server.URL, nil)
	for _, name := range slices.Sorted(maps.Keys(emulated)) {
		for _, op := range slices.Sorted(maps.Keys(emulated[name])) {
			m := method(t, clients[name], op)
			m.satisfy("")
			var api smithy.APIError
			err := m.run(t.Context())
			named := func(path string) bool {
				return errors.As(err, &api) && strings.Contains(strings.ToLower(api.ErrorMessage()), strings.ToLower(path))
			}
			if errors.As(err, &api) && lackForm.MatchString(api.ErrorMessage()) && slices.ContainsFunc(required[name][op], named) {
				t.Errorf("%s %s with all that its model requires: %v", name, op, err)
			}
		}
	}
	for service, ops := range required {
		for op := range ops {
			if _, known := emulated[service][op]; !known {
				t.Errorf("the table of required members has %s %s, which is not emulated", service, op)
			}
		}
	}
}
