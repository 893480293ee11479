package reservations_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/ec2test"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/offerings"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/reservations"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// reserved counts instances, by the reservation in which they run.
type reserved map[string]int

func (r reserved) InReservation(id string) int { return r[id] }

// account has reservations, with the clock and the client of its EC2.
type account struct {
	*reservations.Service
	instances reserved
	clock     *ec2test.Clock
	client    *ec2.Client
}

// loaded is the catalogue of instance types, which every test shares.
var loaded = sync.OnceValues(catalog.Load)

func newAccount(t *testing.T) account {
	t.Helper()
	a, clock := ec2test.NewAccount()
	shared, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	offers, err := offerings.New(a, shared)
	if err != nil {
		t.Fatal(err)
	}
	instances := reserved{}
	svc := reservations.New(a, offers, instances)
	return account{svc, instances, clock, ec2test.Client(a, svc.Operations())}
}

func (a account) add(t *testing.T, r reservations.Reservation) string {
	t.Helper()
	id, err := a.Add(r)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (a account) described(t *testing.T, in *ec2.DescribeCapacityReservationsInput) []types.CapacityReservation {
	t.Helper()
	out, err := a.client.DescribeCapacityReservations(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out.CapacityReservations
}

// request is one for two g5.xlarge, with what change puts over it.
func request(change func(*ec2.CreateCapacityReservationInput)) *ec2.CreateCapacityReservationInput {
	in := &ec2.CreateCapacityReservationInput{InstanceType: sdk.String("g5.xlarge"), InstancePlatform: "Linux/UNIX", AvailabilityZone: sdk.String("us-east-1a"), InstanceCount: sdk.Int32(2)}
	if change != nil {
		change(in)
	}
	return in
}

func TestAReservationIsCreatedOrRefused(t *testing.T) {
	type input = ec2.CreateCapacityReservationInput
	_, clock := ec2test.NewAccount()
	soon, past := clock.Now().Add(time.Hour), clock.Now().Add(-time.Hour)
	for name, tt := range map[string]struct {
		change func(*input)
		want   string
	}{
		"by the name of a zone":                    {nil, ""},
		"by the id of a zone":                      {func(in *input) { in.AvailabilityZone, in.AvailabilityZoneId = nil, sdk.String("use1-az1") }, ""},
		"by both":                                  {func(in *input) { in.AvailabilityZoneId = sdk.String("use1-az1") }, "MissingParameter"},
		"by neither":                               {func(in *input) { in.AvailabilityZone = nil }, "MissingParameter"},
		"in a zone of another region":              {func(in *input) { in.AvailabilityZone = sdk.String("us-west-2a") }, "InvalidParameterValue"},
		"of a type that there is not":              {func(in *input) { in.InstanceType = sdk.String("z9.nano") }, "InvalidParameterValue"},
		"for one instance":                         {func(in *input) { in.InstanceCount = sdk.Int32(1) }, ""},
		"for no instance":                          {func(in *input) { in.InstanceCount = sdk.Int32(0) }, "InvalidParameterValue"},
		"for a thousand instances":                 {func(in *input) { in.InstanceCount = sdk.Int32(1000) }, ""},
		"for one more than a thousand":             {func(in *input) { in.InstanceCount = sdk.Int32(1001) }, "InvalidParameterValue"},
		"for launches that name it":                {func(in *input) { in.InstanceMatchCriteria = "targeted" }, ""},
		"for launches of an unknown kind":          {func(in *input) { in.InstanceMatchCriteria = "closed" }, "InvalidParameterValue"},
		"of another platform":                      {func(in *input) { in.InstancePlatform = "Windows" }, "InvalidParameterValue"},
		"of dedicated hardware":                    {func(in *input) { in.Tenancy = "dedicated" }, "InvalidParameterValue"},
		"without an end":                           {func(in *input) { in.EndDateType = "unlimited" }, ""},
		"until an end":                             {func(in *input) { in.EndDateType, in.EndDate = "limited", &soon }, ""},
		"until an end, whose type follows":         {func(in *input) { in.EndDate = &soon }, ""},
		"until an end that it does not name":       {func(in *input) { in.EndDateType = "limited" }, "InvalidParameterCombination"},
		"without an end and until one":             {func(in *input) { in.EndDateType, in.EndDate = "unlimited", &soon }, "InvalidParameterCombination"},
		"until an end in the past":                 {func(in *input) { in.EndDateType, in.EndDate = "limited", &past }, "InvalidParameterValue"},
		"with tags":                                {func(in *input) { in.TagSpecifications = ec2test.Tagged("capacity-reservation", "k", "v") }, ""},
		"with tags of an instance":                 {func(in *input) { in.TagSpecifications = ec2test.Tagged("instance", "k", "v") }, "InvalidParameterValue"},
		"in a dry run":                             {func(in *input) { in.DryRun = sdk.Bool(true) }, "DryRunOperation"},
		"in a dry run of what would be refused":    {func(in *input) { in.DryRun, in.InstanceCount = sdk.Bool(true), sdk.Int32(0) }, "InvalidParameterValue"},
		"with a setting that the sandbox does not": {func(in *input) { in.EphemeralStorage = sdk.Bool(true) }, "UnknownParameter"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccount(t)
			in := request(tt.change)
			out, err := a.client.CreateCapacityReservation(t.Context(), in)
			if got := ec2test.Code(out, err); got != tt.want {
				t.Fatalf("%q, want %q", got, tt.want)
			}
			all := a.described(t, &ec2.DescribeCapacityReservationsInput{})
			if tt.want != "" {
				if len(all) != 0 {
					t.Errorf("what was refused left %+v", all)
				}
				return
			}
			r := out.CapacityReservation
			if len(all) != 1 || *r.TotalInstanceCount != *in.InstanceCount || *r.AvailableInstanceCount != *in.InstanceCount || *r.AvailabilityZone != "us-east-1a" ||
				*r.AvailabilityZoneId != "use1-az1" || r.State != "active" || (r.EndDate == nil) != (in.EndDate == nil) || (r.EndDateType == "limited") != (in.EndDate != nil) ||
				(r.InstanceMatchCriteria == "targeted") != (in.InstanceMatchCriteria == "targeted") || !r.CreateDate.Equal(a.clock.Now()) {
				t.Errorf("it shows as %+v", r)
			}
			if diff := cmp.Diff(ec2test.TagMap(r.Tags), ec2test.TagMap(all[0].Tags)); diff != "" || len(r.Tags) != len(in.TagSpecifications) {
				t.Errorf("its tags, created and described:\n%s", diff)
			}
		})
	}
}

// EC2's rule of idempotency: the same token and parameters return what was made, the
// same token and other parameters are an error.
func TestATokenMakesOneReservation(t *testing.T) {
	type input = ec2.CreateCapacityReservationInput
	for name, tt := range map[string]struct {
		change func(*input)
		want   string
		made   int // in the end
	}{
		"the same request":               {func(in *input) { in.ClientToken = sdk.String("once") }, "", 1},
		"the token with another count":   {func(in *input) { in.ClientToken, in.InstanceCount = sdk.String("once"), sdk.Int32(3) }, "IdempotentParameterMismatch", 1},
		"the token with another zone":    {func(in *input) { in.ClientToken, in.AvailabilityZone = sdk.String("once"), sdk.String("us-east-1b") }, "IdempotentParameterMismatch", 1},
		"another token":                  {func(in *input) { in.ClientToken = sdk.String("twice") }, "", 2},
		"no token":                       {nil, "", 2},
		"the same request as a dry run":  {func(in *input) { in.ClientToken, in.DryRun = sdk.String("once"), sdk.Bool(true) }, "DryRunOperation", 1},
		"another token and all the same": {func(in *input) { in.ClientToken = sdk.String("ONCE") }, "", 2},
	} {
		a := newAccount(t)
		made, err := a.client.CreateCapacityReservation(t.Context(), request(func(in *input) { in.ClientToken = sdk.String("once") }))
		if err != nil {
			t.Fatal(err)
		}
		again, err := a.client.CreateCapacityReservation(t.Context(), request(tt.change))
		if got := ec2test.Code(again, err); got != tt.want || len(a.described(t, &ec2.DescribeCapacityReservationsInput{})) != tt.made {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		if err == nil && (*again.CapacityReservation.CapacityReservationId == *made.CapacityReservation.CapacityReservationId) != (tt.made == 1) {
			t.Errorf("%s: returned %s after %s", name, *again.CapacityReservation.CapacityReservationId, *made.CapacityReservation.CapacityReservationId)
		}
	}
}

func TestAReservationEndsByItsDateOrItsCancellation(t *testing.T) {
	a := newAccount(t)
	limited := a.add(t, reservations.Reservation{Type: "g5.xlarge", Zone: "us-east-1a", Total: 1, End: a.clock.Now().Add(time.Hour)})
	open := a.add(t, reservations.Reservation{Type: "g5.xlarge", Zone: "us-east-1b", Total: 1})
	before := a.Clone(a.instances)
	states := func() map[string]types.CapacityReservationState {
		out := map[string]types.CapacityReservationState{}
		for _, r := range a.described(t, &ec2.DescribeCapacityReservationsInput{}) {
			out[*r.CapacityReservationId] = r.State
		}
		return out
	}
	cancel := func(id string, dry bool) string {
		return ec2test.Code(a.client.CancelCapacityReservation(t.Context(), &ec2.CancelCapacityReservationInput{CapacityReservationId: &id, DryRun: &dry}))
	}
	check := func(when string, limitedState, openState types.CapacityReservationState) {
		t.Helper()
		if diff := cmp.Diff(map[string]types.CapacityReservationState{limited: limitedState, open: openState}, states()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("at first", "active", "active")
	a.clock.Advance(time.Hour - time.Second)
	check("a second before its end", "active", "active")
	a.clock.Advance(time.Second)
	check("at its end", "expired", "active")
	if got := cancel(open, true); got != "DryRunOperation" {
		t.Errorf("a dry run: %q", got)
	}
	check("after a dry run", "expired", "active")
	if got := cancel(open, false); got != "" {
		t.Errorf("cancelled: %q", got)
	}
	check("after the cancellation", "expired", "cancelled")
	for id, want := range map[string]string{open: "InvalidCapacityReservationState", limited: "InvalidCapacityReservationState", "cr-0123456789abcdef0": "InvalidCapacityReservationId.NotFound"} {
		if got := cancel(id, false); got != want {
			t.Errorf("cancelling %s: %q, want %q", id, got, want)
		}
	}
	if id, refused := before.Reserve(reservations.Launch{Type: "g5.xlarge", Zone: "us-east-1b", CapacityType: offerings.OnDemand}, a.clock.Now()); refused != nil || id != open {
		t.Errorf("an older copy gives %q, %v", id, refused)
	}
}

func TestALaunchUsesTheReservationThatItNamesOrAnOpenOne(t *testing.T) {
	const spec = "CapacityReservationSpecification."
	for name, tt := range map[string]struct {
		r          reservations.Reservation // over one of two on-demand g5.xlarge in us-east-1a
		used       int
		capacity   string
		params     string // ID stands for the reservation's
		want, code string
	}{
		"an open one that matches":                  {want: "it"},
		"an open one of another type":               {r: reservations.Reservation{Type: "g5.2xlarge"}},
		"an open one in another zone":               {r: reservations.Reservation{Zone: "us-east-1b"}},
		"an open one with one instance left":        {used: 1, want: "it"},
		"an open one that is full":                  {used: 2},
		"an open one, for a spot instance":          {capacity: offerings.Spot},
		"an open one, which the launch turns down":  {params: spec + "CapacityReservationPreference=none"},
		"an open one, which the launch requires":    {params: spec + "CapacityReservationPreference=capacity-reservations-only", want: "it"},
		"a targeted one that nobody names":          {r: reservations.Reservation{Targeted: true}},
		"a targeted one that is required, unnamed":  {r: reservations.Reservation{Targeted: true}, params: spec + "CapacityReservationPreference=capacity-reservations-only", code: "ReservationCapacityExceeded"},
		"a targeted one by its id":                  {r: reservations.Reservation{Targeted: true}, params: spec + "CapacityReservationTarget.CapacityReservationId=ID", want: "it"},
		"a targeted one by its id that is full":     {r: reservations.Reservation{Targeted: true}, used: 2, params: spec + "CapacityReservationTarget.CapacityReservationId=ID", code: "ReservationCapacityExceeded"},
		"one of another type by its id":             {r: reservations.Reservation{Type: "g5.2xlarge"}, params: spec + "CapacityReservationTarget.CapacityReservationId=ID", code: "ReservationCapacityExceeded"},
		"one that has ended by its id":              {r: reservations.Reservation{End: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}, params: spec + "CapacityReservationTarget.CapacityReservationId=ID", code: "ReservationCapacityExceeded"},
		"one that has ended, open":                  {r: reservations.Reservation{End: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}},
		"one that is not there":                     {params: spec + "CapacityReservationTarget.CapacityReservationId=cr-none", code: "InvalidCapacityReservationId.NotFound"},
		"a capacity block that nobody names":        {r: reservations.Reservation{CapacityBlock: true}, capacity: offerings.CapacityBlock},
		"a capacity block, for one on demand":       {r: reservations.Reservation{CapacityBlock: true}},
		"a capacity block by its id":                {r: reservations.Reservation{CapacityBlock: true}, capacity: offerings.CapacityBlock, params: spec + "CapacityReservationTarget.CapacityReservationId=ID", want: "it"},
		"none is open but one is required":          {r: reservations.Reservation{Zone: "us-east-1c"}, params: spec + "CapacityReservationPreference=capacity-reservations-only", code: "ReservationCapacityExceeded"},
		"an open one with the preference for these": {params: spec + "CapacityReservationPreference=open", want: "it"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccount(t)
			r := tt.r
			r.ID, r.Total = "cr-it", 2
			r.Type, r.Zone = map[bool]string{true: "g5.xlarge", false: r.Type}[r.Type == ""], map[bool]string{true: "us-east-1a", false: r.Zone}[r.Zone == ""]
			a.add(t, r)
			a.instances["cr-it"] = tt.used
			params := tt.params
			if n := len(params) - 2; n >= 0 && params[n:] == "ID" {
				params = params[:n] + "cr-it"
			}
			form, err := query.Parse(params)
			if err != nil {
				t.Fatal(err)
			}
			capacity := tt.capacity
			if capacity == "" {
				capacity = offerings.OnDemand
			}
			got, refused := a.Reserve(reservations.Launch{Type: "g5.xlarge", Zone: "us-east-1a", CapacityType: capacity, Data: form}, a.clock.Now())
			code := ""
			if refused != nil {
				code = refused.Code
			}
			if code != tt.code || got != map[bool]string{true: "cr-it"}[tt.want == "it"] {
				t.Errorf("%q with %q, want %q with %q", got, code, tt.want, tt.code)
			}
		})
	}
}

func TestInterruptibleCapacityIsAllocatedOnlyWhileItIsUnused(t *testing.T) {
	share := func(a account, id string, n int32, token string, dry bool) string {
		return ec2test.Code(a.client.CreateInterruptibleCapacityReservationAllocation(t.Context(), &ec2.CreateInterruptibleCapacityReservationAllocationInput{
			CapacityReservationId: &id, InstanceCount: &n, ClientToken: &token, DryRun: &dry, TagSpecifications: ec2test.Tagged("capacity-reservation", "team", "ml")}))
	}
	base := reservations.Reservation{ID: "cr-it", Type: "g5.xlarge", Zone: "us-east-1a", Total: 4}
	with := func(change func(*reservations.Reservation)) reservations.Reservation { r := base; change(&r); return r }
	for name, tt := range map[string]struct {
		r     reservations.Reservation
		id    string
		n     int32
		dry   bool
		want  string
		total []int32 // of the source and of what was lent
	}{
		"all that is unused":              {base, "cr-it", 3, false, "", []int32{1, 3}},
		"a part of it":                    {base, "cr-it", 1, false, "", []int32{3, 1}},
		"more than is unused":             {base, "cr-it", 4, false, "InvalidParameterValue", []int32{4}},
		"none":                            {base, "cr-it", 0, false, "InvalidParameterValue", []int32{4}},
		"in a dry run":                    {base, "cr-it", 1, true, "DryRunOperation", []int32{4}},
		"of one that is not there":        {base, "cr-none", 1, false, "InvalidCapacityReservationId.NotFound", []int32{4}},
		"of one that has an end":          {with(func(r *reservations.Reservation) { r.End = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }), "cr-it", 1, false, "InvalidParameterValue", []int32{4}},
		"of one that has ended":           {with(func(r *reservations.Reservation) { r.End = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) }), "cr-it", 1, false, "InvalidCapacityReservationState", []int32{4}},
		"of what is interruptible itself": {with(func(r *reservations.Reservation) { r.Interruptible = true }), "cr-it", 1, false, "InvalidParameterValue", []int32{4}},
		"of a block of capacity":          {with(func(r *reservations.Reservation) { r.CapacityBlock = true }), "cr-it", 1, false, "InvalidParameterValue", []int32{4}},
		"more than a thousand of any":     {with(func(r *reservations.Reservation) { r.Total = 2000 }), "cr-it", 1001, false, "InvalidParameterValue", []int32{2000}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccount(t)
			a.add(t, tt.r)
			a.instances["cr-it"] = 1
			if got := share(a, tt.id, tt.n, "once", tt.dry); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if tt.want == "" {
				if again, other := share(a, tt.id, tt.n, "once", false), share(a, tt.id, tt.n+1, "once", false); again != "" || other != "IdempotentParameterMismatch" {
					t.Errorf("the same request once more: %q, with another count: %q", again, other)
				}
			}
			var total []int32
			for _, interruptible := range []string{"false", "true"} {
				for _, r := range a.described(t, &ec2.DescribeCapacityReservationsInput{}) {
					if (interruptible == "true") == (r.InterruptionInfo != nil) {
						total = append(total, *r.TotalInstanceCount)
					}
					if r.InterruptionInfo != nil && (*r.InterruptionInfo.SourceCapacityReservationId != "cr-it" || !*r.Interruptible || r.InstanceMatchCriteria != "targeted" ||
						ec2test.TagMap(r.Tags)["team"] != "ml" || !a.Interruptible(*r.CapacityReservationId) || a.Interruptible("cr-it")) {
						t.Errorf("lent as %+v", r)
					}
				}
			}
			if !slices.Equal(total, tt.total) {
				t.Errorf("totals %d, want %d", total, tt.total)
			}
		})
	}
}

func TestReservationsAreChosenByFilters(t *testing.T) {
	a := newAccount(t)
	one := a.add(t, reservations.Reservation{Type: "g5.xlarge", Zone: "us-east-1a", Total: 3, Tags: map[string]string{"team": "ml"}})
	two := a.add(t, reservations.Reservation{Type: "p5.48xlarge", Zone: "us-east-1b", Total: 1, CapacityBlock: true, Targeted: true, End: a.clock.Now()})
	a.instances[one] = 2
	for name, tt := range map[string]struct {
		in   ec2.DescribeCapacityReservationsInput
		want []string
		code string
	}{
		"by id":                         {in: ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{two}}, want: []string{two}},
		"by state":                      {in: ec2.DescribeCapacityReservationsInput{Filters: ec2test.Filters("state", "active")}, want: []string{one}},
		"by the state of an ended one":  {in: ec2.DescribeCapacityReservationsInput{Filters: ec2test.Filters("state", "expired,cancelled")}, want: []string{two}},
		"by what launches match":        {in: ec2.DescribeCapacityReservationsInput{Filters: ec2test.Filters("instance-match-criteria", "targeted")}, want: []string{two}},
		"by type":                       {in: ec2.DescribeCapacityReservationsInput{Filters: ec2test.Filters("instance-type", "g5.*")}, want: []string{one}},
		"by zone":                       {in: ec2.DescribeCapacityReservationsInput{Filters: ec2test.Filters("availability-zone", "us-east-1b")}, want: []string{two}},
		"by another owner":              {in: ec2.DescribeCapacityReservationsInput{Filters: ec2test.Filters("owner-id", "000000000000")}},
		"by a tag":                      {in: ec2.DescribeCapacityReservationsInput{Filters: ec2test.Filters("tag:team", "ml", "owner-id", "123456789012")}, want: []string{one}},
		"by one that is not there":      {in: ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{one, "cr-1"}}, code: "InvalidCapacityReservationId.NotFound"},
		"by a filter that there is not": {in: ec2.DescribeCapacityReservationsInput{Filters: ec2test.Filters("mood", "good")}, code: "InvalidParameterValue"},
		"in pages of none":              {in: ec2.DescribeCapacityReservationsInput{MaxResults: sdk.Int32(0)}, code: "InvalidParameterValue"},
	} {
		out, err := a.client.DescribeCapacityReservations(t.Context(), &tt.in)
		var got []string
		if err == nil {
			for _, r := range out.CapacityReservations {
				got = append(got, *r.CapacityReservationId)
			}
		}
		if code := ec2test.Code(out, err); code != tt.code || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q with %q, want %q with %q", name, got, code, tt.want, tt.code)
		}
	}
	for _, r := range a.described(t, &ec2.DescribeCapacityReservationsInput{}) {
		block := *r.CapacityReservationId == two
		if (r.ReservationType == "capacity-block") != block || *r.AvailableInstanceCount != 1 || *r.CapacityReservationArn != "arn:aws:ec2:us-east-1:123456789012:capacity-reservation/"+*r.CapacityReservationId {
			t.Errorf("it shows as %+v", r)
		}
	}
}

func TestAReservationIsAddedOfWhatIsSold(t *testing.T) {
	for name, tt := range map[string]struct {
		r  reservations.Reservation
		ok bool
	}{
		"one instance":                {reservations.Reservation{Type: "g5.xlarge", Zone: "us-east-1a", Total: 1}, true},
		"no instance":                 {reservations.Reservation{Type: "g5.xlarge", Zone: "us-east-1a"}, false},
		"a type that there is not":    {reservations.Reservation{Type: "z9.nano", Zone: "us-east-1a", Total: 1}, false},
		"a zone that there is not":    {reservations.Reservation{Type: "g5.xlarge", Zone: "us-west-2a", Total: 1}, false},
		"without a zone":              {reservations.Reservation{Type: "g5.xlarge", Total: 1}, false},
		"an id that the caller gives": {reservations.Reservation{ID: "cr-mine", Type: "g5.xlarge", Zone: "us-east-1a", Total: 1}, true},
	} {
		a := newAccount(t)
		id, err := a.Add(tt.r)
		if (err == nil) != tt.ok || (a.Tags(id) != nil) != tt.ok || tt.r.ID != "" && id != tt.r.ID {
			t.Errorf("%s: %q, %v", name, id, err)
		}
	}
}
