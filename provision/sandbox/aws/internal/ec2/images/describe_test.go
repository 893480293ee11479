package images_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/ec2test"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/images"
)

// account has the images of two releases, with the clock and the client of its EC2.
type account struct {
	*images.Service
	clock  *ec2test.Clock
	client *ec2.Client
}

func newAccount() account {
	a, clock := ec2test.NewAccount()
	svc := images.New(a, "1.33", []string{"v20260115", "v20261102"})
	return account{svc, clock, ec2test.Client(a, svc.Operations())}
}

const standard = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/"

// recommended is the image of Amazon Linux 2023 for x86_64.
func (a account) recommended(t *testing.T) images.Parameter {
	t.Helper()
	p, found := a.Parameter(standard + "recommended/image_id")
	if !found {
		t.Fatal("no image is recommended")
	}
	return p
}

func (a account) described(t *testing.T, in *ec2.DescribeImagesInput) []types.Image {
	t.Helper()
	out, err := a.client.DescribeImages(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out.Images
}

// copyOf copies the recommended image, with what change puts over the request.
func (a account) copyOf(t *testing.T, change func(*ec2.CopyImageInput)) (id, code string) {
	t.Helper()
	in := &ec2.CopyImageInput{Name: sdk.String("golden"), SourceImageId: sdk.String(a.recommended(t).ImageID), SourceRegion: sdk.String("us-east-1")}
	if change != nil {
		change(in)
	}
	out, err := a.client.CopyImage(t.Context(), in)
	if err != nil {
		return "", ec2test.Code(out, err)
	}
	return *out.ImageId, ""
}

func TestAnImageIsCopiedOrRefused(t *testing.T) {
	type input = ec2.CopyImageInput
	for name, tt := range map[string]struct {
		change func(*input)
		want   string
	}{
		"within the region":               {nil, ""},
		"from another region":             {func(in *input) { in.SourceRegion = sdk.String("us-west-2") }, "InvalidParameterValue"},
		"of one that is not there":        {func(in *input) { in.SourceImageId = sdk.String("ami-0123456789abcdef0") }, "InvalidAMIID.NotFound"},
		"of an id of no form":             {func(in *input) { in.SourceImageId = sdk.String("golden") }, "InvalidAMIID.Malformed"},
		"with tags":                       {func(in *input) { in.TagSpecifications = ec2test.Tagged("image", "k", "v") }, ""},
		"with tags of an instance":        {func(in *input) { in.TagSpecifications = ec2test.Tagged("instance", "k", "v") }, "InvalidParameterValue"},
		"under a name that is there":      {func(in *input) { in.Name = sdk.String("there") }, "InvalidAMIName.Duplicate"},
		"under a name that differs":       {func(in *input) { in.Name = sdk.String("There") }, ""},
		"in a dry run":                    {func(in *input) { in.DryRun = sdk.Bool(true) }, "DryRunOperation"},
		"in a dry run under a taken name": {func(in *input) { in.DryRun, in.Name = sdk.Bool(true), sdk.String("there") }, "InvalidAMIName.Duplicate"},
		"with encryption, which is none":  {func(in *input) { in.Encrypted = sdk.Bool(true) }, "UnknownParameter"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccount()
			a.copyOf(t, func(in *input) { in.Name = sdk.String("there") })
			id, code := a.copyOf(t, tt.change)
			own := a.described(t, &ec2.DescribeImagesInput{Owners: []string{"self"}})
			if code != tt.want || (len(own) == 2) != (tt.want == "") || (a.Name(id) != "") != (tt.want == "") {
				t.Errorf("%q, want %q; the account has %d images", code, tt.want, len(own))
			}
			if code != "" {
				return
			}
			if made := a.described(t, &ec2.DescribeImagesInput{ImageIds: []string{id}}); *made[0].OwnerId != "123456789012" || made[0].ImageOwnerAlias != nil || *made[0].Public ||
				made[0].DeprecationTime != nil || made[0].Architecture != "x86_64" || *made[0].CreationDate != "2026-11-20T12:00:00.000Z" {
				t.Errorf("it shows as %+v", made[0])
			}
		})
	}
}

func TestACopyHasTheTagsOfItsRequestAndMayHaveItsSources(t *testing.T) {
	a := newAccount()
	source, code := a.copyOf(t, func(in *ec2.CopyImageInput) {
		in.TagSpecifications = ec2test.Tagged("image", "team", "ml", "stage", "test")
	})
	if code != "" {
		t.Fatal(code)
	}
	for name, tt := range map[string]struct {
		too  *bool
		want map[string]string
	}{
		"by default":     {nil, map[string]string{"stage": "live"}},
		"without them":   {sdk.Bool(false), map[string]string{"stage": "live"}},
		"with them, too": {sdk.Bool(true), map[string]string{"team": "ml", "stage": "live"}},
	} {
		id, code := a.copyOf(t, func(in *ec2.CopyImageInput) {
			in.Name, in.SourceImageId, in.CopyImageTags, in.TagSpecifications = sdk.String(name), &source, tt.too, ec2test.Tagged("image", "stage", "live")
		})
		if got := a.Tags(id); code != "" || len(got) != len(tt.want) || got["team"] != tt.want["team"] || got["stage"] != "live" {
			t.Errorf("%s: %v, %q, want %v", name, got, code, tt.want)
		}
	}
}

// EC2's rule of idempotency: the same token and parameters return what was made, the
// same token and other parameters are an error.
func TestATokenMakesOneCopy(t *testing.T) {
	type input = ec2.CopyImageInput
	once := func(in *input) { in.ClientToken = sdk.String("once") }
	for name, tt := range map[string]struct {
		change func(*input)
		want   string
	}{
		"the same request":              {once, ""},
		"the token with another name":   {func(in *input) { once(in); in.Name = sdk.String("other") }, "IdempotentParameterMismatch"},
		"the token with tags":           {func(in *input) { once(in); in.TagSpecifications = ec2test.Tagged("image", "a", "b") }, "IdempotentParameterMismatch"},
		"another token":                 {func(in *input) { in.ClientToken = sdk.String("twice") }, "InvalidAMIName.Duplicate"},
		"no token":                      {nil, "InvalidAMIName.Duplicate"},
		"the same request as a dry run": {func(in *input) { once(in); in.DryRun = sdk.Bool(true) }, "DryRunOperation"},
	} {
		a := newAccount()
		made, _ := a.copyOf(t, once)
		again, code := a.copyOf(t, tt.change)
		if own := a.described(t, &ec2.DescribeImagesInput{Owners: []string{"self"}}); code != tt.want || code == "" && again != made || len(own) != 1 {
			t.Errorf("%s: %q after %q, %q, want %q", name, again, made, code, tt.want)
		}
	}
}

func TestADeprecatedImageIsFoundByItsOwnerOrOnRequest(t *testing.T) {
	a := newAccount()
	public := a.recommended(t).ImageID
	own, _ := a.copyOf(t, nil)
	deprecate := func(id string, at time.Time, dry bool) string {
		return ec2test.Code(a.client.EnableImageDeprecation(t.Context(), &ec2.EnableImageDeprecationInput{ImageId: &id, DeprecateAt: &at, DryRun: &dry}))
	}
	soon := a.clock.Now().Add(time.Hour)
	for name, tt := range map[string]struct {
		id   string
		at   time.Time
		dry  bool
		want string
	}{
		"one of AWS":                         {public, soon, false, "AuthFailure"},
		"one that is not there":              {"ami-0123456789abcdef0", soon, false, "InvalidAMIID.NotFound"},
		"an id of no form":                   {"golden", soon, false, "InvalidAMIID.Malformed"},
		"from a time in the past":            {own, a.clock.Now().Add(-time.Second), false, "InvalidParameterValue"},
		"from a time in more than ten years": {own, a.clock.Now().AddDate(10, 0, 0).Add(time.Second), false, "InvalidParameterValue"},
		"in a dry run":                       {own, soon, true, "DryRunOperation"},
		"in a dry run, from a past":          {own, a.clock.Now().Add(-time.Hour), true, "InvalidParameterValue"},
	} {
		if got := deprecate(tt.id, tt.at, tt.dry); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	if i := a.described(t, &ec2.DescribeImagesInput{ImageIds: []string{own}})[0]; i.DeprecationTime != nil {
		t.Errorf("what was refused deprecates the image at %s", *i.DeprecationTime)
	}
	// EC2 rounds the seconds to the nearest minute.
	for at, want := range map[time.Time]string{
		a.clock.Now().AddDate(10, 0, 0): "2036-11-20T12:00:00.000Z", soon.Add(29 * time.Second): "2026-11-20T13:00:00.000Z", soon.Add(30 * time.Second): "2026-11-20T13:01:00.000Z",
	} {
		code := deprecate(own, at, false)
		if i := a.described(t, &ec2.DescribeImagesInput{ImageIds: []string{own}})[0]; code != "" || sdk.ToString(i.DeprecationTime) != want {
			t.Errorf("from %s: %q, shown as %s, want %s", at, code, sdk.ToString(i.DeprecationTime), want)
		}
	}
	if got := deprecate(own, soon, false); got != "" {
		t.Fatal(got)
	}
	finds := func(in ec2.DescribeImagesInput) (ids []string) {
		in.Filters = ec2test.Filters("image-id", public+","+own)
		for _, i := range a.described(t, &in) {
			ids = append(ids, *i.ImageId)
		}
		return ids
	}
	if got := finds(ec2.DescribeImagesInput{}); len(got) != 2 {
		t.Errorf("before any is deprecated: %q", got)
	}
	a.clock.Advance(3 * 365 * 24 * time.Hour) // AWS's images are deprecated two years after their creation
	for name, tt := range map[string]struct {
		in   ec2.DescribeImagesInput
		want []string
	}{
		"by default only the owner's":  {ec2.DescribeImagesInput{}, []string{own}},
		"those of an owner":            {ec2.DescribeImagesInput{Owners: []string{"amazon"}}, nil},
		"on request all":               {ec2.DescribeImagesInput{IncludeDeprecated: sdk.Bool(true)}, []string{own, public}},
		"on request those of an owner": {ec2.DescribeImagesInput{IncludeDeprecated: sdk.Bool(true), Owners: []string{"amazon"}}, []string{public}},
		"by id, also one of AWS":       {ec2.DescribeImagesInput{ImageIds: []string{public}}, []string{public}},
	} {
		got := finds(tt.in)
		slices.Sort(got)
		slices.Sort(tt.want)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestImagesAreChosenByOwnersAndFilters(t *testing.T) {
	a := newAccount()
	own, _ := a.copyOf(t, func(in *ec2.CopyImageInput) { in.TagSpecifications = ec2test.Tagged("image", "team", "ml") })
	public := a.recommended(t).ImageID
	pair := []string{public, own}
	for name, tt := range map[string]struct {
		owners, filters []string
		want            []string
		code            string
	}{
		"by the account's alias":             {owners: []string{"self"}, want: []string{own}},
		"by the account":                     {owners: []string{"123456789012"}, want: []string{own}},
		"by AWS's alias":                     {owners: []string{"amazon"}, want: []string{public}},
		"by the account that publishes":      {owners: []string{"602401143452"}, want: []string{public}},
		"by either":                          {owners: []string{"self", "amazon"}, want: pair},
		"by an owner of none":                {owners: []string{"aws-marketplace"}},
		"by the id of an owner":              {filters: []string{"owner-id", "602401143452"}, want: []string{public}},
		"by the alias of an owner":           {filters: []string{"owner-alias", "amazon"}, want: []string{public}},
		"by a name":                          {filters: []string{"name", "golden"}, want: []string{own}},
		"by a part of a name":                {filters: []string{"name", "amazon-eks-node-al2023-x86_64-standard-*"}, want: []string{public}},
		"by architecture":                    {filters: []string{"architecture", "arm64"}},
		"by whether it is public":            {filters: []string{"is-public", "false"}, want: []string{own}},
		"by state, type and virtualization":  {filters: []string{"state", "available", "image-type", "machine", "virtualization-type", "hvm", "root-device-type", "ebs"}, want: pair},
		"by another state":                   {filters: []string{"state", "failed"}},
		"by a tag":                           {filters: []string{"tag:team", "ml"}, want: []string{own}},
		"by owner and a filter that differs": {owners: []string{"self"}, filters: []string{"is-public", "true"}},
		"by a filter that there is not":      {filters: []string{"mood", "good"}, code: "InvalidParameterValue"},
	} {
		out, err := a.client.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Owners: tt.owners, ImageIds: pair, Filters: ec2test.Filters(tt.filters...)})
		var got []string
		if err == nil {
			for _, i := range out.Images {
				got = append(got, *i.ImageId)
			}
		}
		slices.Sort(got)
		slices.Sort(tt.want)
		if code := ec2test.Code(out, err); code != tt.code || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q with %q, want %q with %q", name, got, code, tt.want, tt.code)
		}
	}
	for name, tt := range map[string]struct{ id, want string }{
		"one that is not there": {"ami-0123456789abcdef0", "InvalidAMIID.NotFound"},
		"an id of no form":      {"ami-xyz", "InvalidAMIID.Malformed"},
		"an id of another kind": {"i-0123456789abcdef0", "InvalidAMIID.Malformed"},
	} {
		if got := ec2test.Code(a.client.DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{own, tt.id}})); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestEveryParameterLeadsToAnImageOfItsFamily(t *testing.T) {
	a := newAccount()
	ids := map[string]types.Image{}
	for p := ec2.NewDescribeImagesPaginator(a.client, &ec2.DescribeImagesInput{IncludeDeprecated: sdk.Bool(true), MaxResults: sdk.Int32(50)}); p.HasMorePages(); {
		page, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Images {
			ids[*i.ImageId] = i
		}
	}
	named := map[string]bool{}
	for _, name := range a.Parameters() {
		p, found := a.Parameter(name)
		image, there := ids[p.ImageID]
		if !found || !there || named[name] {
			t.Fatalf("%s leads to %+v; is it there twice: %t", name, p, named[name])
		}
		named[name] = true
		arch := "x86_64"
		if strings.Contains(name, "arm64") {
			arch = "arm64"
		}
		if string(image.Architecture) != arch || a.Architecture(p.ImageID) != arch || a.Name(p.ImageID) != *image.Name || strings.Contains(name, "nvidia") != strings.Contains(*image.Name, "nvidia") {
			t.Errorf("%s leads to %s of %s", name, *image.Name, image.Architecture)
		}
	}
	if len(named) < len(ids) {
		t.Errorf("%d parameters lead to %d images", len(named), len(ids))
	}
}

func TestAReleaseIsPublishedOnce(t *testing.T) {
	a := newAccount()
	old := a.recommended(t)
	before := a.Clone()
	for name, release := range map[string]string{
		"without the letter": "20261201", "of a day alone": "v1201", "with a time": "v20261201T00", "one that is there": "v20261102", "nothing": "",
	} {
		if a.Publish(release) == nil {
			t.Errorf("%s: %q was published", name, release)
		}
	}
	if got := a.recommended(t); got != old {
		t.Fatalf("what was refused recommends %+v, before %+v", got, old)
	}
	if err := a.Publish("v20261201"); err != nil {
		t.Fatal(err)
	}
	now := a.recommended(t)
	if now.ImageID == old.ImageID || now.Version != old.Version+1 || a.Name(now.ImageID) != "amazon-eks-node-al2023-x86_64-standard-1.33-v20261201" {
		t.Errorf("it recommends %+v, before %+v", now, old)
	}
	const line = standard + "recommended/image_id"
	for name, tt := range map[string]struct {
		parameter string
		version   int
		want      string
	}{
		"the newest version":                   {line, now.Version, now.ImageID},
		"the version before":                   {line, old.Version, old.ImageID},
		"a version to come":                    {line, now.Version + 1, ""},
		"a version before the first":           {line, 0, ""},
		"the only version of a release's":      {standard + "amazon-eks-node-al2023-x86_64-standard-1.33-v20261102/image_id", 1, old.ImageID},
		"another version of a release's":       {standard + "amazon-eks-node-al2023-x86_64-standard-1.33-v20261102/image_id", 2, ""},
		"a parameter of no image, as it seems": {standard + "image_id", 1, ""},
	} {
		if p, found := a.ParameterAt(tt.parameter, tt.version); found != (tt.want != "") || found && (p.ImageID != tt.want || p.Version != tt.version) {
			t.Errorf("%s: %+v, %t, want %q", name, p, found, tt.want)
		}
	}
	if p, _ := before.Parameter(line); p != old || before.Name(now.ImageID) != "" {
		t.Errorf("an older copy recommends %+v, before %+v", p, old)
	}
	if a.Name(old.ImageID) == "" || a.Publish("v20261201") == nil {
		t.Error("the older image is gone, or the release was published twice")
	}
}
