package gate

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const (
	cluster = "dev"
	region  = "us-east-1"
	account = "111122223333"
)

// now is the time of every test; the clock is a fake one.
func now() time.Time { return time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC) }

// fixture is an AWS and an API server that the real SDK and client-go talk to. Its
// zero state passes every gate; a test breaks one thing.
type fixture struct {
	t *testing.T
	// kubeSystem is the UID behind our connection, eksKubeSystem the one behind
	// the endpoint that EKS names.
	kubeSystem, eksKubeSystem string
	// caller is the account that STS tells.
	caller string
	// arn is the cluster's.
	arn string
	// autoMode is EKS's computeConfig.enabled.
	autoMode bool
	// instances are DescribeInstances' answers, one per call; the last repeats.
	instances []string
	// deny makes an operation answer AccessDenied.
	deny string
	// objects are in the API server; listErr fails every list of that kind.
	objects []client.Object
	listErr map[string]error

	ours, eks *httptest.Server
	calls     int
	queries   []url.Values
	tokens    []string
}

func newFixture(t *testing.T) *fixture {
	return &fixture{
		t: t, kubeSystem: "uid-1", eksKubeSystem: "uid-1", caller: account,
		arn:       "arn:aws:eks:" + region + ":" + account + ":cluster/" + cluster,
		instances: []string{instances()},
		listErr:   map[string]error{},
	}
}

// gates starts the servers and returns gates that look at them.
func (w *fixture) gates() Gates {
	w.ours = httptest.NewTLSServer(w.namespace(&w.kubeSystem))
	w.eks = httptest.NewTLSServer(w.namespace(&w.eksKubeSystem))
	amazon := httptest.NewServer(http.HandlerFunc(w.amazon))
	w.t.Cleanup(func() { w.ours.Close(); w.eks.Close(); amazon.Close() })
	clock := clocktesting.NewFakeClock(now())
	go w.run(clock)
	return Gates{
		Cluster: cluster, Region: region, Account: account,
		REST: &rest.Config{Host: w.ours.URL, BearerToken: "token", TLSClientConfig: rest.TLSClientConfig{CAData: ca(w.ours)}},
		Kube: w.kube(),
		AWS: aws.Config{
			Region: region, BaseEndpoint: &amazon.URL,
			Credentials:      credentials.NewStaticCredentialsProvider("id", "secret", ""),
			RetryMaxAttempts: 1,
		},
		OwnLease: types.NamespacedName{Namespace: "poolwright-system", Name: "poolwright"},
		Clock:    clock,
	}
}

// run lets time pass whenever a gate waits for it.
func (w *fixture) run(clock *clocktesting.FakeClock) {
	for ctx := w.t.Context(); ctx.Err() == nil; {
		if clock.HasWaiters() {
			clock.Step(recheckDelay)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
}

func ca(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func (w *fixture) namespace(uid *string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		w.tokens = append(w.tokens, r.Header.Get("Authorization"))
		rw.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path != "/api/v1/namespaces/kube-system":
			http.NotFound(rw, r)
		case *uid == "":
			rw.WriteHeader(http.StatusForbidden)
			json.NewEncoder(rw).Encode(metav1.Status{Status: "Failure", Reason: metav1.StatusReasonForbidden, Code: 403, Message: "no"})
		default:
			json.NewEncoder(rw).Encode(corev1.Namespace{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
				ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(*uid)},
			})
		}
	}
}

func (w *fixture) kube() client.Reader {
	return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(w.objects...).
		WithIndex(&coordinationv1.Lease{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).
		WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				kind := strings.TrimPrefix(fmt.Sprintf("%T", list), "*")
				if gvk := list.GetObjectKind().GroupVersionKind(); gvk.Kind != "" {
					kind = gvk.Kind
				}
				for name, err := range w.listErr {
					if strings.HasSuffix(kind, name) {
						return err
					}
				}
				return c.List(ctx, list, opts...)
			},
		}).Build()
}

func (w *fixture) amazon(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	operation := form.Get("Action")
	if strings.HasPrefix(r.URL.Path, "/clusters/") {
		operation = "DescribeCluster"
	}
	if w.deny == operation {
		w.denied(rw, operation)
		return
	}
	switch operation {
	case "DescribeCluster":
		rw.Header().Set("Content-Type", "application/json")
		json.NewEncoder(rw).Encode(map[string]any{"cluster": map[string]any{
			"name": cluster, "arn": w.arn, "endpoint": w.eks.URL,
			"certificateAuthority": map[string]any{"data": base64.StdEncoding.EncodeToString(ca(w.eks))},
			"computeConfig":        map[string]any{"enabled": w.autoMode},
		}})
	case "GetCallerIdentity":
		fmt.Fprintf(rw, `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Account>%s</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`, w.caller)
	case "DescribeInstances":
		w.queries = append(w.queries, form)
		response := w.instances[min(w.calls, len(w.instances)-1)]
		w.calls++
		fmt.Fprint(rw, response)
	default:
		w.t.Errorf("unexpected AWS operation %q at %s", operation, r.URL.Path)
		rw.WriteHeader(http.StatusNotImplemented)
	}
}

func (w *fixture) denied(rw http.ResponseWriter, operation string) {
	switch operation {
	case "DescribeCluster":
		rw.Header().Set("Content-Type", "application/json")
		rw.Header().Set("X-Amzn-ErrorType", "AccessDeniedException")
		rw.WriteHeader(http.StatusForbidden)
		fmt.Fprint(rw, `{"message":"not allowed"}`)
	case "DescribeInstances":
		rw.WriteHeader(http.StatusForbidden)
		fmt.Fprint(rw, `<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>not allowed</Message></Error></Errors><RequestID>r</RequestID></Response>`)
	default:
		rw.WriteHeader(http.StatusForbidden)
		fmt.Fprint(rw, `<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>not allowed</Message></Error></ErrorResponse>`)
	}
}

// instances is one answer of DescribeInstances.
func instances(items ...string) string {
	return `<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet><item><instancesSet>` +
		strings.Join(items, "") + `</instancesSet></item></reservationSet></DescribeInstancesResponse>`
}

// used is an instance that was tagged once its Node registered; launching one of
// NodePool general that never was.
func used(id string) string {
	return `<item><instanceId>` + id + `</instanceId><launchTime>` + now().Add(-time.Minute).Format(time.RFC3339) + `</launchTime><tagSet><item><key>` + claimTag + `</key><value>gone</value></item></tagSet></item>`
}

func launching(id string, age time.Duration) string {
	return `<item><instanceId>` + id + `</instanceId><launchTime>` + now().Add(-age).Format(time.RFC3339) + `</launchTime><tagSet><item><key>` + poolTag + `</key><value>general</value></item></tagSet></item>`
}
