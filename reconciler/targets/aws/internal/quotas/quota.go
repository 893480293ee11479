// Package quotas compares EC2's vCPU quotas with what the declared NodePools can draw on them. It
// requests no increase. Start reading at New.
package quotas

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	quotatypes "github.com/aws/aws-sdk-go-v2/service/servicequotas/types"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/clusterspec"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

// Quotas are EC2's vCPU quotas as far as the declared NodePools can draw on
// them. They are read, never written, and none of their fields is wanted:
// what there is to report is in the fields, Notes and Warnings of what is read.
type Quotas struct {
	table func() (*catalog.Catalog, error)
	// pools are those of the last want: read learns the keys only, and must
	// tell which pool a quota is too small for.
	pools *latest
}

// New makes the kind; the table of instance types is loaded when it is first needed.
func New() Quotas {
	return Quotas{table: sync.OnceValues(catalog.Load), pools: &latest{}}
}

// latest holds the pools that were declared last, so that they are worked out
// once for each change of theirs: want is called many times.
type latest struct {
	mu    sync.Mutex
	hash  string
	pools []pool
}

func (l *latest) get() []pool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pools
}

// of works out what the declared pools can draw on.
func (l *latest) of(items []state.Item, types *catalog.Catalog) []pool {
	declared := make([]any, 0, 3*len(items))
	for _, item := range items {
		declared = append(declared, item.Key.Name, item.Origin.String(), item.Object)
	}
	hash := state.Hash(declared)
	l.mu.Lock()
	defer l.mu.Unlock()
	if hash == l.hash {
		return l.pools
	}
	l.hash, l.pools = hash, nil
	offers := quotaOfferings(types)
	for _, item := range items {
		l.pools = append(l.pools, readPool(item, offers))
	}
	return l.pools
}

// quotaClass is one quota: which instances count against it, and its name.
type quotaClass struct {
	// name is what AWS calls the quota today; names change, see matches.
	name string
	// family is the token of the family in such names.
	family string
	spot   bool
	// from and to bound the generations, where quotas differ by them.
	from, to int
}

// quotaClasses are the quotas of the families that most pools are made of.
func quotaClasses() []quotaClass {
	const all = 1 << 10
	return []quotaClass{
		{"Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "STANDARD", false, 0, all},
		{"Running On-Demand G and VT instances", "G", false, 0, all},
		{"Running On-Demand P instances", "P", false, 0, all},
		{"All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", "STANDARD", true, 0, all},
		{"All G and VT Spot Instance Requests", "G", true, 0, all},
		{"All P4, P3 and P2 Spot Instance Requests", "P", true, 0, 4},
		{"All P5 Spot Instance Requests", "P", true, 5, all},
	}
}

// quotaFamily finds the family names in the name of a quota.
var quotaFamily = regexp.MustCompile(`([A-Z]+)([0-9]*)`)

// matches reports whether a quota of that name is the class's. AWS renames
// quotas and splits them by generations ("All P Spot Instance Requests" became
// two), so words are looked for, not the name.
func (q quotaClass) matches(name string) bool {
	name = strings.ToUpper(name)
	for _, other := range []string{"DEDICATED", "HOST", "FLEET", "BLOCK", "RESERV"} {
		if strings.Contains(name, other) {
			return false
		}
	}
	if !strings.Contains(name, "INSTANCE") || strings.Contains(name, "SPOT") != q.spot || strings.Contains(name, "ON-DEMAND") == q.spot {
		return false
	}
	for _, m := range quotaFamily.FindAllStringSubmatch(name, -1) {
		generation, err := strconv.Atoi(m[2])
		if m[1] == q.family && (err != nil || q.from <= generation && generation <= q.to) {
			return true
		}
	}
	return false
}

// typeForm takes an instance type's name apart: the family's letters and its
// generation.
var typeForm = regexp.MustCompile(`^([a-z]+)(?:-[0-9]+tb)?([0-9]+)`)

// classOf finds the quota that an instance counts against; false for families
// with quotas of their own, which are not read.
func classOf(instanceType string, spot bool) (quotaClass, bool) {
	m := typeForm.FindStringSubmatch(instanceType)
	if m == nil {
		return quotaClass{}, false
	}
	family := ""
	switch m[1] {
	case "a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z":
		family = "STANDARD"
	case "g", "gr", "vt":
		family = "G"
	case "p":
		family = "P"
	}
	generation, err := strconv.Atoi(m[2])
	if err != nil {
		return quotaClass{}, false
	}
	for _, q := range quotaClasses() {
		if q.family == family && q.spot == spot && q.from <= generation && generation <= q.to {
			return q, true
		}
	}
	return quotaClass{}, false
}

// Wanted lists the quotas that some pool can draw on, once the Cluster requires
// any resource in AWS.
func (q Quotas) Wanted(s resource.Declaration) []state.Item {
	if !clusterspec.NeedsAWS(s.Spec) {
		return nil
	}
	types, err := q.table()
	if err != nil {
		return nil // the catalogue's own tests keep the table readable
	}
	reached := map[string]bool{}
	for _, p := range q.pools.of(s.Pools, types) {
		for name := range p.demands {
			reached[name] = true
		}
	}
	var out []state.Item
	for _, name := range slices.Sorted(maps.Keys(reached)) {
		out = append(out, s.Compared(s.Regional("servicequotas", "Quota", name), "", map[string]any{}))
	}
	return out
}

// limit is what Service Quotas says of one class.
type limit struct {
	code  string
	vcpus int64
	// taken are those of vcpus that instances of no declared pool use.
	taken int64
	// byDefault is true for what is AWS's, not the account's own.
	byDefault bool
	// others are the names of further quotas that match.
	others []string
}

// left are the vCPUs that the declared pools can use together.
func (l limit) left() float64 { return float64(max(0, l.vcpus-l.taken)) }

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
	for name, l := range limits {
		l.taken = used[name].taken
		limits[name] = l
	}
	out := make(map[state.Key]resource.Live, len(keys))
	for _, k := range keys {
		seen := resource.Live{Object: map[string]any{}}
		found, ok := limits[k.Name]
		if !ok {
			seen.NotFound = true
			seen.Notes = []string{"Service Quotas names no such quota in " + c.Scope.Region + ": what the pools may use is unknown"}
			out[k] = seen
			continue
		}
		seen.Object = map[string]any{"limitVCPUs": found.vcpus, "usedVCPUs": used[k.Name].vcpus}
		text := fmt.Sprintf("of %d vCPUs, %d are used", found.vcpus, used[k.Name].vcpus)
		if found.byDefault {
			text += "; the account has no value of its own yet, so this is AWS's default, and a new account may have less"
		}
		seen.Warnings = slices.Sorted(slices.Values(advice(pools, k.Name, limits)))
		seen.Notes = []string{text}
		if len(found.others) > 0 {
			seen.Notes = append(seen.Notes, "there are other quotas that may count as well: "+strings.Join(found.others, ", "))
		}
		slices.Sort(seen.Notes)
		out[k] = seen
	}
	return out
}

// readLimits finds the classes' quotas by their names; those that the account
// has no value of, among AWS's defaults.
func readLimits(ctx context.Context, c *resource.Clients, keys []state.Key) (map[string]limit, error) {
	var listed []quotatypes.ServiceQuota
	pages := servicequotas.NewListServiceQuotasPaginator(c.Quotas, &servicequotas.ListServiceQuotasInput{ServiceCode: sdk.String("ec2"), MaxResults: sdk.Int32(100)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the quotas of EC2: %w", err)
		}
		listed = append(listed, page.Quotas...)
	}
	out := byClass(listed)
	if !slices.ContainsFunc(keys, func(k state.Key) bool { _, ok := out[k.Name]; return !ok }) {
		return out, nil
	}
	listed = nil
	defaults := servicequotas.NewListAWSDefaultServiceQuotasPaginator(c.Quotas, &servicequotas.ListAWSDefaultServiceQuotasInput{ServiceCode: sdk.String("ec2"), MaxResults: sdk.Int32(100)})
	for defaults.HasMorePages() {
		page, err := defaults.NextPage(ctx)
		if awserr.Denied(err) {
			return out, nil // A note reports that they are unknown.
		}
		if err != nil {
			return nil, fmt.Errorf("listing AWS's default quotas of EC2: %w", err)
		}
		listed = append(listed, page.Quotas...)
	}
	for name, found := range byClass(listed) {
		if _, own := out[name]; !own {
			found.byDefault = true
			out[name] = found
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
			all = append(all, entry{sdk.ToString(q.QuotaName), limit{code: sdk.ToString(q.QuotaCode), vcpus: int64(*q.Value)}})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	out := map[string]limit{}
	for _, class := range quotaClasses() {
		var fitting []entry
		for _, e := range all {
			if e.name == class.name {
				fitting = []entry{e}
				break
			}
			if class.matches(e.name) {
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
		out[class.name] = found
	}
	return out
}

// use is how many vCPUs count against a class, taken those of them that are of no declared pool.
type use struct{ vcpus, taken int64 }

// readUse adds up the vCPUs of the instances that count against each class.
func (q Quotas) readUse(ctx context.Context, c *resource.Clients, pools []pool) (map[string]use, error) {
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
					sum.taken += n
				}
				used[class] = sum
			}
		}
	}
	return used, nil
}

// ofPool reports whether Karpenter launched the instance for one of the pools.
func ofPool(i ec2types.Instance, cluster string, pools []pool) bool {
	tags := map[string]string{}
	for _, t := range i.Tags {
		tags[sdk.ToString(t.Key)] = sdk.ToString(t.Value)
	}
	name := tags["karpenter.sh/nodepool"]
	return tags["eks:eks-cluster-name"] == cluster && slices.ContainsFunc(pools, func(p pool) bool { return p.name == name })
}

// counts finds the class of an instance. Capacity blocks, scheduled instances
// and those on Dedicated Hosts have quotas of their own.
func counts(i ec2types.Instance) (string, bool) {
	spot := i.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot
	if !spot && i.InstanceLifecycle != "" || i.Placement != nil && i.Placement.Tenancy == ec2types.TenancyHost {
		return "", false
	}
	class, ok := classOf(string(i.InstanceType), spot)
	return class.name, ok
}

// vcpusOf is what an instance counts: the vCPUs of its type; of a type that the
// catalogue does not know, those that it runs with.
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
func (Quotas) Write(_ context.Context, _ *resource.Clients, wanted state.Item, _ resource.Live) error {
	return fmt.Errorf("quota %q is never written: request a quota increase in the console of Service Quotas", wanted.Key.Name)
}

// Remove implements resource.Kind.
func (Quotas) Remove(context.Context, *resource.Clients, state.Key, resource.Live) error { return nil }
