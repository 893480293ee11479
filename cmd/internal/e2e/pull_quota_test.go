package e2e

import (
	"fmt"
	"strings"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// standardQuota is the quota that the pools of the suite draw on.
const standardQuota = "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"

// exceedsAQuota: the quota is lowered, and a pull request declares more than it allows. The pool is held until the
// quota is raised, and a larger limit of it until a person confirms. The Cluster declares no part of AWS.
func (p *pulls) exceedsAQuota() {
	limited := func(cpus string) map[string]string {
		return map[string]string{"batch.yaml": strings.Replace(pullPoolText("batch", "default", "batch"), "spec:\n", "spec:\n  limits: {cpu: "+cpus+"}\n", 1)}
	}
	p.sets(`{"guard":{"quota":"Hold"}}`)
	p.allows(64)
	number := p.open("batch", "Add a pool for batches", limited("100"))
	p.waitForComment(number, "held by `QuotaExceeded`", "NodePool batch needs at least 100 vCPUs, the quota allows 64", "L-1216C47A")
	merged := p.merge(number)
	if token := p.tokenFor("QuotaHeld"); !strings.HasPrefix(token, "quota-") {
		p.Errorf("the token is %s", token)
	}
	p.waitForComment(number, "NodePool batch needs at least 100 vCPUs", "poolwright.dev/confirm")
	p.stands(merged, rolloutStatus, "pending")
	if got, err := p.limitOf("batch"); !apierrors.IsNotFound(err) {
		p.Errorf("the pool is there: %s, %v", got, err)
	}
	p.allows(140)                                              // The pool with the taint has a limit of 40.
	p.annotates(fluxmeta.ReconcileRequestAnnotation, "raised") // It would be read again within five minutes.
	p.hasLimit("batch", "100")

	p.merge(p.open("larger-batch", "Raise the limit of the pool", limited("120")))
	p.annotates(v1alpha1.ConfirmAnnotation, p.tokenFor("QuotaHeld"))
	p.hasLimit("batch", "120")
}

// allows sets the quota of the pools.
func (p *pulls) allows(vcpus float64) {
	p.Helper()
	if err := p.AWS.SetQuota(standardQuota, vcpus); err != nil {
		p.Fatal(err)
	}
}

// limitOf is the limit of CPUs of a live pool.
func (p *pulls) limitOf(pool string) (string, error) {
	var live karpv1.NodePool
	err := p.hand.Get(p.Context(), client.ObjectKey{Name: pool}, &live)
	cpus := live.Spec.Limits["cpu"]
	return cpus.String(), err
}

// hasLimit waits until the pool has that limit of CPUs.
func (p *pulls) hasLimit(pool, cpus string) {
	p.Helper()
	p.eventually(fmt.Sprintf("%s has a limit of %s CPUs", pool, cpus), func() error {
		got, err := p.limitOf(pool)
		if err == nil && got != cpus {
			err = fmt.Errorf("it has %q", got)
		}
		return err
	})
}
