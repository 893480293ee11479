// Package quotas compares EC2's vCPU quotas with what the declared NodePools can draw on them. It
// requests no increase. Start reading at New.
package quotas

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	quotatypes "github.com/aws/aws-sdk-go-v2/service/servicequotas/types"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/quota"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/clusterspec"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

// Quotas are EC2's vCPU quotas as far as the declared NodePools can draw on
// them. They are read, never written, and none of their fields is desired:
// what there is to report is in the fields, Notes and Warnings of what is read.
type Quotas struct {
	table func() (*catalog.Catalog, error)
	// pools are those that were desired last: read gets the keys only, and must
	// name which pool a quota is too small for.
	pools *latest
}

// New makes the kind; the table of instance types is loaded when it is first needed.
func New() Quotas {
	return Quotas{table: sync.OnceValues(catalog.Load), pools: &latest{}}
}

// latest holds the pools that were declared last, so that they are worked out
// once for each change of theirs: Desired is called many times.
type latest struct {
	mu    sync.Mutex
	hash  string
	pools []quota.Pool
}

func (l *latest) get() []quota.Pool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pools
}

// of works out what the declared pools can draw on, and a digest of them.
func (l *latest) of(items []state.Item, types *catalog.Catalog) ([]quota.Pool, string) {
	declared := make([]any, 0, 3*len(items))
	for _, item := range items {
		declared = append(declared, item.Key.Name, item.Origin.String(), item.Object)
	}
	hash := state.Hash(declared)
	l.mu.Lock()
	defer l.mu.Unlock()
	if hash == l.hash {
		return l.pools, hash
	}
	l.hash, l.pools = hash, nil
	reader := quota.NewReader(types)
	for _, item := range items {
		l.pools = append(l.pools, reader.Pool(item.Key.Name, item.Origin.String(), item.Object))
	}
	return l.pools, hash
}

// Desired lists the quotas that some pool can draw on, where the Cluster requires any resource in AWS or
// its engine runs here: no other Cluster needs a role in AWS.
func (q Quotas) Desired(s resource.Declaration) []state.Item {
	if !clusterspec.NeedsAWS(s.Spec) && !clusterspec.Embedded(s.Spec) {
		return nil
	}
	types, err := q.table()
	if err != nil {
		return nil // the catalogue's own tests keep the table readable
	}
	pools, digest := q.pools.of(s.Pools, types)
	reached := map[string]bool{}
	for _, p := range pools {
		for _, name := range p.Classes() {
			reached[name] = true
		}
	}
	var out []state.Item
	for _, name := range slices.Sorted(maps.Keys(reached)) {
		item := s.CompareOnly(s.Regional("servicequotas", "Quota", name), "", map[string]any{})
		item.Inputs = digest // Without it, what was read for other pools would be taken for these.
		out = append(out, item)
	}
	return out
}

// limit is what Service Quotas returned of one class.
type limit struct {
	quota.Limit
	// usedBy is the part of Taken of this cluster's pools that are not declared.
	usedBy map[string]int64
	// byDefault is true for what is AWS's, not the account's own.
	byDefault bool
	// others are the names of further quotas that match.
	others []string
}

// limits are those of all classes that Service Quotas lists.
type limits struct {
	found map[string]limit
	// defaultsErr is why AWS's defaults may not be read; nil where they were, or were not needed.
	defaultsErr error
}

// Read implements resource.Kind.
func (q Quotas) Read(ctx context.Context, c *resource.Clients, keys []state.Key) map[state.Key]resource.Live {
	limits, err := readLimits(ctx, c, keys)
	pools := q.pools.get()
	used := map[string]use{}
	if err == nil {
		used, err = q.readUse(ctx, c, pools)
	}
	if err != nil {
		return resource.AllUnknown(keys, err)
	}
	left := make(map[string]quota.Limit, len(limits.found))
	for name, l := range limits.found {
		l.Used, l.usedBy = used[name].used, used[name].usedBy
		limits.found[name], left[name] = l, l.Limit
	}
	out := make(map[state.Key]resource.Live, len(keys))
	for _, k := range keys {
		found, ok := limits.found[k.Name]
		switch {
		case ok:
			out[k] = found.live(used[k.Name].vcpus, quota.Exceeded(pools, k.Name, left))
		case limits.defaultsErr != nil:
			out[k] = resource.Live{Err: limits.defaultsErr}
		default:
			out[k] = resource.Live{Object: map[string]any{}, NotFound: true, Quota: &state.Quota{Unlisted: true},
				Notes: []finding.Finding{finding.New(codeQuotaUnlisted, "Service Quotas names no such quota in %s: what the pools may use is unknown", finding.NewFact("region", c.Scope.Region))}}
		}
	}
	return out
}

// live is the quota with how many vCPUs are used of it, and for which pools it is too small.
func (l limit) live(used int64, exceeded []quota.ExceededQuota) resource.Live {
	usage := finding.New(codeQuotaUsage, "of %d vCPUs, %d are used", finding.NewFact("limitVCPUs", l.VCPUs), finding.NewFact("usedVCPUs", used)).
		With(finding.NewFact("awsDefault", l.byDefault))
	if l.byDefault {
		usage.Text += "; the account has no value of its own yet, so this is AWS's default, and a new account may have less"
	}
	out := resource.Live{
		Object:   map[string]any{"limitVCPUs": l.VCPUs, "usedVCPUs": used},
		Quota:    &state.Quota{Code: l.Code, LimitVCPUs: l.VCPUs, UsedVCPUs: l.Used, UsedBy: l.usedBy},
		Warnings: exceededWarnings(exceeded),
		Notes:    []finding.Finding{usage},
	}
	if len(l.others) > 0 {
		out.Notes = append(out.Notes, finding.New(codeOtherQuotas, "there are other quotas that may count as well: %s", finding.As("quotas", l.others, strings.Join(l.others, ", "))))
	}
	slices.SortFunc(out.Notes, finding.Finding.Compare)
	return out
}

// exceededWarnings are the warnings of pools for which the quota is too small.
func exceededWarnings(exceeded []quota.ExceededQuota) []finding.Finding {
	var out []finding.Finding
	for _, s := range exceeded {
		code := codeQuotaTooSmall
		if s.SmallestType != "" {
			code = codeQuotaAllowsNoNode
		}
		out = append(out, finding.New(code, "%s", s.Text).With(
			finding.NewFact("nodePools", s.Pools), finding.NewFact("quotaCodes", s.Codes), finding.NewFact("neededVCPUs", s.NeededVCPUs), finding.NewFact("smallestType", s.SmallestType)))
	}
	slices.SortFunc(out, finding.Finding.Compare)
	return out
}

// readLimits finds the classes' quotas by their names; those that the account
// has no value of, among AWS's defaults. Where these may not be read, the
// others are known all the same.
func readLimits(ctx context.Context, c *resource.Clients, keys []state.Key) (limits, error) {
	var listed []quotatypes.ServiceQuota
	pages := servicequotas.NewListServiceQuotasPaginator(c.Quotas, &servicequotas.ListServiceQuotasInput{ServiceCode: sdk.String("ec2"), MaxResults: sdk.Int32(100)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return limits{}, fmt.Errorf("listing the quotas of EC2: %w", err)
		}
		listed = append(listed, page.Quotas...)
	}
	out := limits{found: byClass(listed)}
	if !slices.ContainsFunc(keys, func(k state.Key) bool { _, ok := out.found[k.Name]; return !ok }) {
		return out, nil
	}
	listed = nil
	defaults := servicequotas.NewListAWSDefaultServiceQuotasPaginator(c.Quotas, &servicequotas.ListAWSDefaultServiceQuotasInput{ServiceCode: sdk.String("ec2"), MaxResults: sdk.Int32(100)})
	for defaults.HasMorePages() {
		page, err := defaults.NextPage(ctx)
		if awserr.Denied(err) {
			out.defaultsErr = fmt.Errorf("listing AWS's default quotas of EC2: %w", err)
			return out, nil
		}
		if err != nil {
			return limits{}, fmt.Errorf("listing AWS's default quotas of EC2: %w", err)
		}
		listed = append(listed, page.Quotas...)
	}
	for name, found := range byClass(listed) {
		if _, own := out.found[name]; !own {
			found.byDefault = true
			out.found[name] = found
		}
	}
	return out, nil
}

// byClass finds the quota of each class.
func byClass(listed []quotatypes.ServiceQuota) map[string]limit {
	type entry struct {
		name string
		limit
	}
	var all []entry
	for _, q := range listed {
		if q.Value != nil {
			all = append(all, entry{sdk.ToString(q.QuotaName), limit{Limit: quota.Limit{Code: sdk.ToString(q.QuotaCode), VCPUs: int64(*q.Value)}}})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	out := map[string]limit{}
	for _, class := range quota.Classes() {
		var fitting []entry
		for _, e := range all {
			if e.name == class.Name {
				fitting = []entry{e}
				break
			}
			if class.Matches(e.name) {
				fitting = append(fitting, e)
			}
		}
		if len(fitting) == 0 {
			continue
		}
		found := fitting[0].limit
		for _, e := range fitting[1:] {
			found.others = append(found.others, e.name)
		}
		out[class.Name] = found
	}
	return out
}

// use is how many vCPUs count against a class, taken those of them that are of no declared pool, and usedBy those of
// this cluster's pools that are not declared.
type use struct {
	vcpus, used int64
	usedBy      map[string]int64
}

// readUse adds up the vCPUs of the instances and capacity reservations that count against each class.
func (q Quotas) readUse(ctx context.Context, c *resource.Clients, pools []quota.Pool) (map[string]use, error) {
	types, err := q.table()
	if err != nil {
		return nil, err
	}
	used := map[string]use{}
	pages := ec2.NewDescribeInstancesPaginator(c.EC2, &ec2.DescribeInstancesInput{
		Filters:    []ec2types.Filter{{Name: sdk.String("instance-state-name"), Values: []string{"pending", "running"}}},
		MaxResults: sdk.Int32(1000),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("adding up the vCPUs in use: %w", err)
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				class, ok := counts(i)
				if !ok {
					continue
				}
				sum, n := used[class], vcpusOf(i, types)
				sum.vcpus += n
				if !ofPool(i, c.Scope.Cluster, pools) {
					sum.used += n
					if pool := poolOf(i, c.Scope.Cluster); pool != "" {
						if sum.usedBy == nil {
							sum.usedBy = map[string]int64{}
						}
						sum.usedBy[pool] += n
					}
				}
				used[class] = sum
			}
		}
	}
	return used, addReservations(ctx, c, pools, types, used)
}

// addReservations adds what On-Demand Capacity Reservations of the account hold beside the instances in
// them: EC2 counts them against the On-Demand quotas from their creation. Capacity Blocks count against none.
func addReservations(ctx context.Context, c *resource.Clients, pools []quota.Pool, types *catalog.Catalog, used map[string]use) error {
	pages := ec2.NewDescribeCapacityReservationsPaginator(c.EC2, &ec2.DescribeCapacityReservationsInput{
		Filters: []ec2types.Filter{
			{Name: sdk.String("state"), Values: []string{string(ec2types.CapacityReservationStateActive)}},
			{Name: sdk.String("owner-id"), Values: []string{c.Scope.Account}},
		},
		MaxResults: sdk.Int32(1000),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("adding up the vCPUs of capacity reservations: %w", err)
		}
		for _, r := range page.CapacityReservations {
			t, known := types.Lookup(sdk.ToString(r.InstanceType))
			class, counted := quota.ClassOf(t.Name, false)
			if !known || !counted || r.ReservationType == ec2types.CapacityReservationTypeCapacityBlock || r.Tenancy == ec2types.CapacityReservationTenancyDedicated {
				continue
			}
			sum, n := used[class.Name], int64(sdk.ToInt32(r.AvailableInstanceCount))*int64(t.VCPUs)
			sum.vcpus += n
			if !slices.ContainsFunc(pools, func(p quota.Pool) bool { return p.Reserves(t) }) {
				sum.used += n
			}
			used[class.Name] = sum
		}
	}
	return nil
}

// ofPool reports whether Karpenter launched the instance for one of the pools.
func ofPool(i ec2types.Instance, cluster string, pools []quota.Pool) bool {
	name := poolOf(i, cluster)
	return name != "" && slices.ContainsFunc(pools, func(p quota.Pool) bool { return p.Name == name })
}

// poolOf is the NodePool of the cluster for which Karpenter launched the instance; empty without any.
func poolOf(i ec2types.Instance, cluster string) string {
	tags := map[string]string{}
	for _, t := range i.Tags {
		tags[sdk.ToString(t.Key)] = sdk.ToString(t.Value)
	}
	if tags["eks:eks-cluster-name"] != cluster {
		return ""
	}
	return tags["karpenter.sh/nodepool"]
}

// counts finds the class of an instance. Capacity blocks, scheduled instances
// and those on Dedicated Hosts have quotas of their own.
func counts(i ec2types.Instance) (string, bool) {
	spot := i.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot
	if !spot && i.InstanceLifecycle != "" || i.Placement != nil && i.Placement.Tenancy == ec2types.TenancyHost {
		return "", false
	}
	class, ok := quota.ClassOf(string(i.InstanceType), spot)
	return class.Name, ok
}

// vcpusOf is what an instance counts: the vCPUs of its type; of a type that the
// catalogue does not have, those that it runs with.
func vcpusOf(i ec2types.Instance, types *catalog.Catalog) int64 {
	if t, ok := types.Lookup(string(i.InstanceType)); ok {
		return int64(t.VCPUs)
	}
	if o := i.CpuOptions; o != nil {
		return int64(sdk.ToInt32(o.CoreCount)) * int64(sdk.ToInt32(o.ThreadsPerCore))
	}
	return 0
}

// Write implements resource.Kind.
func (Quotas) Write(_ context.Context, _ *resource.Clients, desired state.Item, _ resource.Live) error {
	return fmt.Errorf("quota %q is never written: request a quota increase in the console of Service Quotas", desired.Key.Name)
}

// Remove implements resource.Kind.
func (Quotas) Remove(context.Context, *resource.Clients, state.Key, resource.Live) error { return nil }
