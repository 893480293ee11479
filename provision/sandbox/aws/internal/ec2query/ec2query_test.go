package ec2query

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// call is one with a form.
func call(t *testing.T, form string) *api.Call {
	t.Helper()
	f, err := query.Parse(form)
	if err != nil {
		t.Fatal(err)
	}
	return &api.Call{Op: "DescribeThings", Form: f}
}

// code is that of an error of AWS, "" for none.
func code(err error) string {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e.Code
	}
	return ""
}

type thing struct {
	name  string
	zones []string
	tags  map[string]string
}

func TestThingsAreChosenByAllFiltersAndAnyValue(t *testing.T) {
	things := []thing{
		{"alpha", []string{"a", "b"}, map[string]string{"team": "ml", "cost": "1"}},
		{"beta", []string{"b"}, map[string]string{"team": "web"}},
		{"gamma", nil, nil},
	}
	known := Attributes[thing]{"name": One(func(v thing) string { return v.name }), "zone": func(v thing) []string { return v.zones }}
	tags := func(v thing) map[string]string { return v.tags }
	for name, tt := range map[string]struct {
		form   string
		tags   func(thing) map[string]string
		want   []string
		refuse string
	}{
		"no filter":                       {"", tags, []string{"alpha", "beta", "gamma"}, ""},
		"any value of one filter":         {"Filter.1.Name=name&Filter.1.Value.1=alpha&Filter.1.Value.2=gamma", tags, []string{"alpha", "gamma"}, ""},
		"all filters":                     {"Filter.1.Name=zone&Filter.1.Value.1=b&Filter.2.Name=name&Filter.2.Value.1=b*", tags, []string{"beta"}, ""},
		"a tag's value":                   {"Filter.1.Name=tag:team&Filter.1.Value.1=ml", tags, []string{"alpha"}, ""},
		"a tag's key":                     {"Filter.1.Name=tag-key&Filter.1.Value.1=cost", tags, []string{"alpha"}, ""},
		"any tag's value":                 {"Filter.1.Name=tag-value&Filter.1.Value.1=w?b", tags, []string{"beta"}, ""},
		"an unknown filter":               {"Filter.1.Name=colour&Filter.1.Value.1=red", tags, nil, "InvalidParameterValue"},
		"a filter without values":         {"Filter.1.Name=name", tags, nil, "InvalidParameterValue"},
		"a tag filter of what has no tag": {"Filter.1.Name=tag:team&Filter.1.Value.1=ml", nil, nil, "InvalidParameterValue"},
	} {
		found, err := Choose(call(t, tt.form), things, known, tt.tags)
		var got []string
		for _, v := range found {
			got = append(got, v.name)
		}
		if !slices.Equal(got, tt.want) || code(err) != tt.refuse {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestPagesHaveTheSizeThatWasRequestedWithinTheirBounds(t *testing.T) {
	for form, want := range map[string]string{
		"": "4 next", "MaxResults=3": "3 next", "MaxResults=2": "2 next", "MaxResults=9": "4 next",
		"MaxResults=1": "InvalidParameterValue", "MaxResults=x": "InvalidParameterValue", "NextToken=x": "InvalidNextToken",
	} {
		var rows []api.Row
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			rows = append(rows, api.NewRow(key, query.Group("item", query.Text("key", key))))
		}
		got := ""
		elements, err := Page(call(t, form), "set", rows, 2, 4)
		if text := string(query.Document(query.Group("r", elements...), "")); err == nil {
			got = strings.Repeat("+", strings.Count(text, "<item>"))
			got = string(rune('0'+len(got))) + map[bool]string{true: " next"}[strings.Contains(text, "<nextToken>")]
		}
		if err != nil {
			got = code(err)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", form, got, want)
		}
	}
}

func TestWhatIsNotThereIsRefusedByItsKind(t *testing.T) {
	for id, want := range map[string]string{
		"i-0123456789abcdef0": "InvalidInstanceID.NotFound", "i-1": "InvalidInstanceID.Malformed", "sg-xyz": "InvalidGroupId.Malformed",
		"lt-1": "InvalidLaunchTemplateId.NotFound", "cr-1": "InvalidCapacityReservationId.NotFound", "bucket-1": "InvalidID", "": "InvalidID",
	} {
		if got := code(NotFound(id)); got != want {
			t.Errorf("%q: %s, want %s", id, got, want)
		}
	}
	if got := code(WellFormed("ami", []string{"ami-01234567", "i-01234567"})); got != "InvalidAMIID.Malformed" {
		t.Errorf("an instance among images: %s", got)
	}
	if err := WellFormed("ami", []string{"ami-01234567", PartID("ami", "x", 1)}); err != nil {
		t.Error(err)
	}
}

func TestResourcesHaveTheARNOfTheirKind(t *testing.T) {
	account := &api.Account{ID: "1", Region: "us-east-1"}
	for id, want := range map[string]string{
		"i-1": "arn:aws:ec2:us-east-1:1:instance/i-1", "ami-1": "arn:aws:ec2:us-east-1::image/ami-1", "snap-1": "arn:aws:ec2:us-east-1::snapshot/snap-1",
		"sir-1": "arn:aws:ec2:us-east-1:1:spot-instances-request/sir-1", "x-1": "arn:aws:ec2:us-east-1:1:unknown/x-1",
	} {
		if got := ARN(account, id); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

func TestTagsAreReadOrRefused(t *testing.T) {
	const tag, spec = "Tag.1.Key=a&Tag.1.Value=b", "TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=a&TagSpecification.1.Tag.1.Value=b"
	want := map[string]string{"a": "b"}
	for form, refuse := range map[string]string{
		tag: "", "Tag.1.Value=b": "InvalidParameterValue", "Tag.1.Key=aws:x": "InvalidParameterValue", "Tag.1.Key=" + strings.Repeat("k", 129): "InvalidParameterValue",
		tag + "&Tag.2.Key=a": "InvalidParameterValue",
	} {
		got, err := ReadTags(call(t, form).Form.Each("Tag"))
		if code(err) != refuse || err == nil && !cmp.Equal(got, want) {
			t.Errorf("%s: %v, %v", form, got, err)
		}
	}
	f := call(t, spec).Form
	if got, err := TagsOnly(f, "volume"); err != nil || !cmp.Equal(got, want) {
		t.Errorf("tags of a volume: %v, %v", got, err)
	}
	if _, err := TagsOnly(f, "instance"); code(err) != "InvalidParameterValue" {
		t.Errorf("tags of an instance: %v", err)
	}
	if got := Specified(f, "instance"); len(got) != 0 {
		t.Errorf("an instance has the tags %v of a volume", got)
	}
	if diff := cmp.Diff(want, Specified(f, "volume")); diff != "" {
		t.Error(diff)
	}
}
