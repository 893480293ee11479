package ec2query

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// EC2's reference: values and names of filters are case-sensitive, * and ? are
// wildcards, and a backslash takes that from them.
func TestFiltersMatchAsEC2sDo(t *testing.T) {
	things := []thing{
		{"a*b", []string{""}, map[string]string{"Team": "ML", "empty": ""}},
		{"axb", nil, map[string]string{"team": "ml", "aws:made": "by"}},
		{`a\b`, []string{"z"}, map[string]string{}},
	}
	known := Attributes[thing]{"name": One(func(v thing) string { return v.name }), "zone": func(v thing) []string { return v.zones }}
	for name, tt := range map[string]struct {
		form   string
		want   []string
		refuse string
	}{
		"a star for anything":                   {"Filter.1.Name=name&Filter.1.Value.1=a*b", []string{"a*b", "axb", `a\b`}, ""},
		"a star for itself":                     {`Filter.1.Name=name&Filter.1.Value.1=a\*b`, []string{"a*b"}, ""},
		"a backslash for itself":                {`Filter.1.Name=name&Filter.1.Value.1=a\\b`, []string{`a\b`}, ""},
		"a mark for one character":              {"Filter.1.Name=name&Filter.1.Value.1=?x?", []string{"axb"}, ""},
		"a mark for none":                       {"Filter.1.Name=name&Filter.1.Value.1=axb?", nil, ""},
		"a value in another case":               {"Filter.1.Name=name&Filter.1.Value.1=AXB", nil, ""},
		"an empty value":                        {"Filter.1.Name=zone&Filter.1.Value.1=", []string{"a*b"}, ""},
		"any value of what has none":            {"Filter.1.Name=zone&Filter.1.Value.1=*", []string{"a*b", `a\b`}, ""},
		"a tag's key in its case":               {"Filter.1.Name=tag:Team&Filter.1.Value.1=*", []string{"a*b"}, ""},
		"a tag's value in its case":             {"Filter.1.Name=tag:team&Filter.1.Value.1=ML", nil, ""},
		"a tag with an empty value":             {"Filter.1.Name=tag:empty&Filter.1.Value.1=", []string{"a*b"}, ""},
		"a tag that is not there, as if empty":  {"Filter.1.Name=tag:none&Filter.1.Value.1=", nil, ""},
		"a tag whose key has a colon":           {"Filter.1.Name=tag:aws:made&Filter.1.Value.1=by", []string{"axb"}, ""},
		"a pattern of keys":                     {"Filter.1.Name=tag-key&Filter.1.Value.1=*eam", []string{"a*b", "axb"}, ""},
		"the same filter twice":                 {"Filter.1.Name=name&Filter.1.Value.1=a*&Filter.2.Name=name&Filter.2.Value.1=*x*", []string{"axb"}, ""},
		"filters with gaps in their numbers":    {"Filter.3.Name=name&Filter.3.Value.7=axb", []string{"axb"}, ""},
		"a name in another case":                {"Filter.1.Name=Name&Filter.1.Value.1=axb", nil, "InvalidParameterValue"},
		"a filter without a name":               {"Filter.1.Value.1=axb", nil, "InvalidParameterValue"},
		"a tag filter without a key":            {"Filter.1.Name=tag:&Filter.1.Value.1=x", nil, "InvalidParameterValue"},
		"an unknown filter behind one that is":  {"Filter.1.Name=name&Filter.1.Value.1=axb&Filter.2.Name=tags&Filter.2.Value.1=x", nil, "InvalidParameterValue"},
		"an unknown filter where nothing could": {"Filter.1.Name=name&Filter.1.Value.1=none&Filter.2.Name=mood&Filter.2.Value.1=x", nil, "InvalidParameterValue"},
	} {
		found, err := Choose(call(t, tt.form), things, known, func(v thing) map[string]string { return v.tags })
		var got []string
		for _, v := range found {
			got = append(got, v.name)
		}
		if !slices.Equal(got, tt.want) || code(err) != tt.refuse {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tt.want)
		}
	}
}

func TestATokenIsOfTheOperationThatGaveIt(t *testing.T) {
	rows := func() (out []api.Row) {
		for _, key := range []string{"e", "c", "a", "d", "b", "f", "g"} {
			out = append(out, api.NewRow(key, query.Group("item", query.Text("key", key))))
		}
		return out
	}
	// page is the text of a page, and the token in it.
	page := func(in *api.Call) (text, token string) {
		elements, err := Page(in, "set", rows(), 2, 3)
		if err != nil {
			return code(err), ""
		}
		text = string(query.Document(query.Group("r", elements...), ""))
		if _, rest, more := strings.Cut(text, "<nextToken>"); more {
			token, _, _ = strings.Cut(rest, "</nextToken>")
		}
		return text, token
	}
	keys := func(text string) (out string) {
		for part := range strings.SplitSeq(text, "<key>") {
			if len(part) > 1 && part[1] == '<' {
				out += part[:1]
			}
		}
		return out
	}
	text, token := page(call(t, ""))
	next, last := page(call(t, "MaxResults=2&NextToken="+token))
	end, none := page(call(t, "NextToken="+last))
	if got := []string{keys(text), keys(next), keys(end)}; !slices.Equal(got, []string{"abc", "de", "fg"}) || none != "" {
		t.Errorf("pages %q, in the end the token %q", got, none)
	}
	other := call(t, "NextToken="+token)
	other.Op = "DescribeOtherThings"
	for name, in := range map[string]*api.Call{
		"of another operation": other, "of no operation": call(t, "NextToken=YQ"), "of no form": call(t, "NextToken=!"), "cut short": call(t, "NextToken="+token[:len(token)/2]),
	} {
		if got, _ := page(in); got != "InvalidNextToken" {
			t.Errorf("a token %s: %s", name, got)
		}
	}
}

func TestIDsHaveTheFormOfAWSs(t *testing.T) {
	for id, want := range map[string]bool{
		"i-01234567": true, "i-0123456789abcdef0": true, "subnet-0123456789abcdef0": true, "i-0123456": false, "i-012345678": false, "i-0123456789abcdef": false,
		"i-0123456789abcdef01": false, "i-0123456789ABCDEF0": false, "i-0123456789abcdeg0": false, "I-01234567": false, "-01234567": false, "i01234567": false, "": false, "i-01234567\n": false,
	} {
		if IsID(id) != want {
			t.Errorf("%q is an id: %t", id, !want)
		}
	}
	for name, tt := range map[string]struct {
		prefix string
		ids    []string
		want   string
	}{
		"none":                            {"i", nil, ""},
		"one of the kind":                 {"i", []string{"i-01234567"}, ""},
		"one of another kind":             {"i", []string{"i-01234567", "vol-01234567"}, "InvalidInstanceID.Malformed"},
		"one whose kind begins the same":  {"i", []string{"image-01234567"}, "InvalidInstanceID.Malformed"},
		"a security group of no form":     {"sg", []string{"sg-1"}, "InvalidGroupId.Malformed"},
		"an image of no form":             {"ami", []string{"ami-1"}, "InvalidAMIID.Malformed"},
		"a volume of no form":             {"vol", []string{"vol-1"}, "InvalidVolumeID.Malformed"},
		"a network interface of no form":  {"eni", []string{"eni-1"}, "InvalidNetworkInterfaceId.Malformed"},
		"a spot request of no form":       {"sir", []string{"sir-1"}, "InvalidSpotInstanceRequestID.Malformed"},
		"an empty one behind a right one": {"i", []string{"i-01234567", ""}, "InvalidInstanceID.Malformed"},
	} {
		if got := code(WellFormed(tt.prefix, tt.ids)); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	observed := map[string]bool{}
	for _, prefix := range []string{"vol", "eni"} {
		for _, instance := range []string{"i-1", "i-11"} {
			for _, n := range []int{0, 1, 11} {
				id := PartID(prefix, instance, n)
				if !IsID(id) || observed[id] || id != PartID(prefix, instance, n) || !strings.HasPrefix(id, prefix+"-") {
					t.Errorf("part %d of %s is %s", n, instance, id)
				}
				observed[id] = true
			}
		}
	}
}

func TestWhatIsMissingIsTheFirstThatIsNotThere(t *testing.T) {
	has := func(id string) bool { return id == "a" || id == "b" }
	for want, requested := range map[string][]string{"": {"b", "a"}, "c": {"a", "c", "d"}, "d": {"d", "c"}} {
		if got := Missing(requested, has); got != want {
			t.Errorf("of %q %q is missing, want %q", requested, got, want)
		}
	}
	if got := Missing(nil, has); got != "" {
		t.Errorf("of none %q is missing", got)
	}
}

func TestResourcesAreOfThePartitionOfTheirRegion(t *testing.T) {
	for region, partition := range map[string]string{"us-east-1": "aws", "cn-north-1": "aws-cn", "us-gov-west-1": "aws-us-gov"} {
		account := &api.Account{ID: "1", Region: region}
		for id, want := range map[string]string{
			"lt-1": ":1:launch-template/lt-1", "subnet-1": ":1:subnet/subnet-1", "sg-1": ":1:security-group/sg-1", "cr-1": ":1:capacity-reservation/cr-1",
			"vol-1": ":1:volume/vol-1", "eni-1": ":1:network-interface/eni-1", "fleet-1": ":1:fleet/fleet-1", "ami-1": "::image/ami-1",
		} {
			if got := ARN(account, id); got != "arn:"+partition+":ec2:"+region+want {
				t.Errorf("in %s: %s", region, got)
			}
		}
	}
}

func TestTimesAreInUTCWithMilliseconds(t *testing.T) {
	at := time.Date(2026, 11, 20, 1, 2, 3, 4999999, time.FixedZone("", 3600))
	if got := Stamp(at); got != "2026-11-20T00:02:03.004Z" {
		t.Errorf("%s", got)
	}
}

func TestSpecificationsOfTagsAreWithinTheLimits(t *testing.T) {
	spec := func(n, first, many int) (out string) {
		out = fmt.Sprintf("&TagSpecification.%d.ResourceType=volume", n)
		for i := range many {
			out += fmt.Sprintf("&TagSpecification.%d.Tag.%d.Key=k%d&TagSpecification.%d.Tag.%d.Value=v", n, i+1, first+i, n, i+1)
		}
		return out
	}
	for name, tt := range map[string]struct {
		form string
		tags int
		want string
	}{
		"none":                                  {"", 0, ""},
		"fifty":                                 {spec(1, 0, 50), 50, ""},
		"fifty-one":                             {spec(1, 0, 51), 0, "TagLimitExceeded"},
		"fifty in two specifications":           {spec(1, 0, 25) + spec(2, 25, 25), 50, ""},
		"sixty in two specifications":           {spec(1, 0, 30) + spec(2, 30, 30), 0, "TagLimitExceeded"},
		"the same in two specifications":        {spec(1, 0, 30) + spec(2, 0, 30), 30, ""},
		"a specification of something else":     {spec(1, 0, 1) + "&TagSpecification.2.ResourceType=instance", 0, "InvalidParameterValue"},
		"a specification of nothing":            {"&TagSpecification.1.Tag.1.Key=a", 0, "InvalidParameterValue"},
		"a key of 128 letters beyond ASCII":     {"&TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=" + strings.Repeat("ü", 128), 1, ""},
		"a key of 129 letters beyond ASCII":     {"&TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=" + strings.Repeat("ü", 129), 0, "InvalidParameterValue"},
		"a value of 256 letters beyond ASCII":   {"&TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=a&TagSpecification.1.Tag.1.Value=" + strings.Repeat("ü", 256), 1, ""},
		"a value of 257 letters beyond ASCII":   {"&TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=a&TagSpecification.1.Tag.1.Value=" + strings.Repeat("ü", 257), 0, "InvalidParameterValue"},
		"a tag of AWS's own in mixed case":      {"&TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=Aws:a", 0, "InvalidParameterValue"},
		"a specification of the kind, no tags":  {"&TagSpecification.1.ResourceType=volume", 0, ""},
		"two tags of keys that differ in case":  {"&TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=a&TagSpecification.1.Tag.2.Key=A", 2, ""},
		"two tags of one key in one of the two": {"&TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=a&TagSpecification.1.Tag.2.Key=a", 0, "InvalidParameterValue"},
	} {
		got, err := TagsOnly(call(t, strings.TrimPrefix(tt.form, "&")).Form, "volume")
		if code(err) != tt.want || len(got) != tt.tags {
			t.Errorf("%s: %d tags, %v, want %d, %q", name, len(got), err, tt.tags, tt.want)
		}
	}
	if got, want := string(query.Document(query.Group("r", TagSet(map[string]string{"b": "2", "a": "1", "B": ""})), "")), "<tagSet><item><key>B</key><value></value></item><item><key>a</key><value>1</value></item><item><key>b</key><value>2</value></item></tagSet>"; !strings.Contains(got, want) {
		t.Errorf("tags in the order of their keys: %s", got)
	}
}

// EC2's rule of idempotency: a token is case-sensitive, of one operation, and of the
// parameters with which it came first.
func TestARequestIsRepeatedByItsTokenAndParameters(t *testing.T) {
	of := func(op, form string, dry bool) *api.Call {
		in := call(t, form)
		in.Op, in.Params, in.Dry = op, form, dry
		return in
	}
	made := []Request{RequestOf(of("CreateA", "", false)), RequestOf(of("CreateA", "ClientToken=x&N=1", false)), RequestOf(of("CreateB", "ClientToken=y&N=1", false))}
	for name, tt := range map[string]struct {
		in   *api.Call
		want *Request
		code string
	}{
		"the same request":                  {of("CreateA", "ClientToken=x&N=1", false), &made[1], ""},
		"a request without a token":         {of("CreateA", "", false), nil, ""},
		"a request with an empty token":     {of("CreateA", "ClientToken=", false), nil, ""},
		"another token":                     {of("CreateA", "ClientToken=z&N=1", false), nil, ""},
		"the token in another case":         {of("CreateA", "ClientToken=X&N=1", false), nil, ""},
		"the token with other parameters":   {of("CreateA", "ClientToken=x&N=2", false), nil, "IdempotentParameterMismatch"},
		"the token of another operation":    {of("CreateA", "ClientToken=y&N=1", false), nil, ""},
		"a dry run of the same request":     {of("CreateA", "ClientToken=x&DryRun=true&N=1", true), nil, "DryRunOperation"},
		"a dry run with another token":      {of("CreateA", "ClientToken=z&DryRun=true&N=1", true), nil, ""},
		"the second of several that is one": {of("CreateB", "ClientToken=y&N=1", false), &made[2], ""},
	} {
		got, again, err := Repeated(tt.in, []*Request{&made[0], &made[1], &made[2]}, func(r *Request) Request { return *r })
		if again != (tt.want != nil) || got != tt.want || code(err) != tt.code {
			t.Errorf("%s: %+v, %t, %v", name, got, again, err)
		}
	}
}
