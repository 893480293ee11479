package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// gpuImage is the parameter of the newest image for GPUs.
const gpuImage = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/nvidia/recommended/image_id"

// newestImage is what AWS says of a parameter now.
func newestImage(t *testing.T, w *sandbox.Environment, name string) string {
	t.Helper()
	client := ssm.NewFromConfig(sdk.Config{
		Region: w.Env()["AWS_REGION"], BaseEndpoint: sdk.String(w.Endpoint()),
		Credentials: sdk.CredentialsProviderFunc(func(context.Context) (sdk.Credentials, error) {
			return sdk.Credentials{AccessKeyID: personKey, SecretAccessKey: personKey}, nil
		}),
	})
	out, err := client.GetParameter(t.Context(), &ssm.GetParameterInput{Name: sdk.String(name)})
	if err != nil {
		t.Fatal(err)
	}
	return sdk.ToString(out.Parameter.Value)
}

// images waits until the stage's class selects an image by its id.
func (s *syncFixture) images(id string) {
	s.Helper()
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.k8s.aws", Version: "v1", Kind: "EC2NodeClass"})
	s.eventually("the class has image "+id, func() error {
		if err := s.hand.Get(s.Context(), client.ObjectKey{Name: s.name}, class); err != nil {
			return err
		}
		terms, _, _ := unstructured.NestedSlice(class.Object, "spec", "amiSelectorTerms")
		if want := fmt.Sprint([]any{map[string]any{"id": id}}); fmt.Sprint(terms) != want {
			return fmt.Errorf("it has %v", terms)
		}
		return nil
	})
}

// An image that AWS publishes changes nothing until a person takes it.
func TestAnImageOfAnSSMParameterStaysUntilItIsUpdated(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "parameters")
	s.declare("${GPU_AMI_ID}", "a")
	s.repo.write("config/class.yaml", `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: `+s.name+`}
spec:
  amiFamily: AL2023
  role: nodes
  amiSelectorTerms: [{id: "${GPU_AMI_ID}"}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
`)
	s.repo.commit("Begin")
	c := s.start()
	// AL2 ended before the cluster's version.
	ended := strings.Replace(gpuImage, "amazon-linux-2023/x86_64/nvidia", "amazon-linux-2-gpu", 1)
	s.follow(func(sync *v1alpha1.Sync) {
		sync.Spec.SubstituteFrom = []v1alpha1.SubstituteReference{{Kind: v1alpha1.SubstituteSSMParameter, Name: ended, Variable: "GPU_AMI_ID"}}
	})
	if message := s.waitForNotReady("ParameterNotFound"); !strings.Contains(message, ended+" does not exist in us-east-1") {
		t.Errorf("the message does not name the parameter: %s", message)
	}
	s.change(func(sync *v1alpha1.Sync) { sync.Spec.SubstituteFrom[0].Name = gpuImage })
	old := newestImage(t, sharedEnv, gpuImage)
	s.images(old)
	s.holds("a", old)
	s.ready()
	pin := s.sync().Status.Parameters
	if len(pin) != 1 || pin[0].Variable != "GPU_AMI_ID" || pin[0].Name != gpuImage || pin[0].Value != old || pin[0].Version == 0 || pin[0].PinnedAt.IsZero() || pin[0].Latest != "" {
		t.Errorf("the status says %+v", pin)
	}

	if err := sharedEnv.AWS.Publish("v20261120"); err != nil {
		t.Fatal(err)
	}
	fresh := newestImage(t, sharedEnv, gpuImage)
	// A new life asks at once, as an old one does after an hour.
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	s.deleteLease()
	s.run(c)
	if message := s.waitForEvent("ParameterOutdated"); !strings.Contains(message, old) || !strings.Contains(message, fresh) {
		t.Errorf("the event does not name both images: %s", message)
	}
	s.handled()
	if now := s.sync().Status.Parameters; len(now) != 1 || now[0].Value != old || now[0].Latest != fresh || !now[0].PinnedAt.Equal(&pin[0].PinnedAt) {
		t.Errorf("the status says %+v", now)
	}
	s.images(old)
	s.expect(s.command("plan", "config", "--sync="+s.name), 0, "${GPU_AMI_ID} is "+old+", from SSM parameter "+gpuImage, "the newest is "+fresh)

	page := newPage(t, "howto/pin-amis.md")
	u := newShell(s.fixture, s.repo, "poolwright-system", s.system, "sync dev", "sync "+s.name, "reconcile dev", "reconcile "+s.name+" -n "+s.system)
	u.prints(u.block(page.take("kubectl"), exitCode{0}), "latest: "+fresh)
	u.prints(u.block(page.take("poolwright reconcile"), exitCode{0}), "${GPU_AMI_ID} is "+fresh+" now, it was "+old)
	s.images(fresh)
	s.holds("a", fresh)
	s.waitForEvent("ParametersUpdated")
	if now := s.sync().Status.Parameters; len(now) != 1 || now[0].Value != fresh || now[0].Latest != "" || now[0].Version != pin[0].Version+1 {
		t.Errorf("the status says %+v", now)
	}
	s.expect(s.command("reconcile", s.name, "--update-parameters"), 0, "the parameters have the newest values already")

	s.change(func(sync *v1alpha1.Sync) {
		sync.Spec.SubstituteFrom, sync.Spec.Substitute = nil, map[string]string{"GPU_AMI_ID": old}
	})
	s.images(old)
	s.eventually("the parameter is dropped", func() error {
		if left := s.sync().Status.Parameters; len(left) > 0 {
			return fmt.Errorf("the status has %+v", left)
		}
		return nil
	})
}
