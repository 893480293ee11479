package eks

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// list is a page of any of EKS's lists.
type list struct {
	Clusters, Nodegroups, Addons, AccessEntries []string
	Associations                                []struct{ Namespace, ServiceAccount, RoleArn string }
	NextToken                                   string
}

func (l list) names() []string {
	out := slices.Concat(l.Clusters, l.Nodegroups, l.Addons, l.AccessEntries)
	for _, a := range l.Associations {
		out = append(out, a.Namespace+"/"+a.ServiceAccount+a.RoleArn)
	}
	return out
}

func furnished(t *testing.T) *Service {
	t.Helper()
	svc, _, _ := newService(Cluster{Name: "k", NodeGroups: []NodeGroup{{Name: "c", Max: 1}, {Name: "a", Max: 1}, {Name: "b", Max: 1}}, Addons: map[string]string{"y": "1", "x": "1"}})
	if code := do(t, svc, "POST /access-entries", `{"principalArn":"`+principal+`"}`, nil); code != "" {
		t.Fatal(code)
	}
	for _, pair := range []string{"n/s", "n/r", "m/s"} {
		namespace, account, _ := strings.Cut(pair, "/")
		if code := do(t, svc, "POST /pod-identity-associations", fmt.Sprintf(`{"namespace":%q,"serviceAccount":%q,"roleArn":%q}`, namespace, account, principal), nil); code != "" {
			t.Fatal(code)
		}
	}
	return svc
}

func TestListsOfEKSAreCutByMaxResults(t *testing.T) {
	svc := furnished(t)
	for path, want := range map[string][]string{
		"/node-groups": {"a", "b", "c"}, "/addons": {"x", "y"}, "/access-entries": {principal},
		"/pod-identity-associations": {"m/s", "n/r", "n/s"}, "/pod-identity-associations?namespace=n": {"n/r", "n/s"}, "/pod-identity-associations?serviceAccount=s": {"m/s", "n/s"},
		"/pod-identity-associations?namespace=n&serviceAccount=s": {"n/s"}, "/pod-identity-associations?namespace=N": nil,
	} {
		for _, most := range []int{1, 2, 100} {
			separator := "?"
			if strings.Contains(path, "?") {
				separator = "&"
			}
			var got []string
			token := ""
			for pages := 0; pages == 0 || token != ""; pages++ {
				var page list
				if code := do(t, svc, fmt.Sprintf("GET %s%smaxResults=%d&nextToken=%s", path, separator, most, token), "", &page); code != "" {
					t.Fatalf("%s: %s", path, code)
				}
				if names := page.names(); len(names) > most || pages > 9 || page.NextToken != "" && len(names) != most {
					t.Fatalf("%s by %d: page %d is %+v", path, most, pages, page)
				}
				got, token = append(got, page.names()...), page.NextToken
			}
			if slices.Sort(got); !slices.Equal(got, want) { // associations are in the order of their ids
				t.Errorf("%s by %d: %q, want %q", path, most, got, want)
			}
		}
		for rest, code := range map[string]string{"maxResults=0": "InvalidParameterException", "maxResults=101": "InvalidParameterException", "maxResults=x": "InvalidParameterException",
			"nextToken=x": "InvalidParameterException", "nextToken=" + (&api.Call{Op: "Other"}).Token("a"): "InvalidParameterException"} {
			base, _, _ := strings.Cut(path, "?")
			if got := do(t, svc, "GET "+base+"?"+rest, "", nil); got != code {
				t.Errorf("%s?%s: %q, want %q", base, rest, got, code)
			}
		}
	}
}

func TestAnotherClusterHasNothing(t *testing.T) {
	svc := furnished(t)
	for route, op := range paths() {
		method, path, _ := strings.Cut(route, " ")
		if !strings.HasPrefix(path, "/clusters/*") {
			continue
		}
		path = strings.ReplaceAll(strings.Replace(path, "*", "other", 1), "*", "a")
		_, err := svc.Table().Operations[op].Run(&api.Call{Op: op, Target: method + " " + path, Body: []byte(`{}`)})
		if failed, is := errors.AsType[*api.Error](err); !is || failed.Code != "ResourceNotFoundException" || failed.Status != 404 {
			t.Errorf("%s of another cluster: %v", op, err)
		}
	}
}

func TestTagsOfEKS(t *testing.T) {
	many := func(n int) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf(`"k%d":""`, i))
		}
		return "{" + strings.Join(out, ",") + "}"
	}
	svc := furnished(t)
	var entryARN, associationARN string
	for _, e := range svc.entries {
		entryARN = e.arn
	}
	for _, a := range svc.associations {
		associationARN = svc.associationARN(a)
	}
	for what, arn := range map[string]string{
		"the cluster": svc.clusterARN(), "a node group": svc.nodeGroupARN(svc.nodeGroups["a"]), "an add-on": svc.addonARN(svc.addons["x"]), "an entry": entryARN, "an association": associationARN,
	} {
		path := "/tags/" + url.PathEscape(arn)
		for _, step := range []struct{ request, body, code string }{
			{"POST " + path, `{"tags":{"old":"1"}}`, ""},
			{"POST " + path, `{"tags":{"` + strings.Repeat("é", 128) + `":"` + strings.Repeat("é", 256) + `"}}`, ""},
			{"POST " + path, `{"tags":{"old":"2"}}`, ""},
			{"POST " + path, `{"tags":{"a":"1","` + strings.Repeat("a", 129) + `":""}}`, "BadRequestException"},
			{"POST " + path, `{"tags":{"a":"` + strings.Repeat("a", 257) + `"}}`, "BadRequestException"},
			{"POST " + path, `{"tags":{"a":"1","AWS:b":""}}`, "BadRequestException"},
			{"POST " + path, `{"tags":` + many(49) + `}`, "BadRequestException"}, // beside the two that are there
			{"POST " + path, `{"tags":` + many(48) + `}`, ""},
			{"DELETE " + path, "", "BadRequestException"},
			{"DELETE " + path + "?tagKeys=k1&tagKeys=never", "", ""},
		} {
			if code := do(t, svc, step.request, step.body, nil); code != step.code {
				t.Errorf("%s, %s %.60s: %q, want %q", what, step.request, step.body, code, step.code)
			}
		}
		var got struct{ Tags map[string]string }
		do(t, svc, "GET "+path, "", &got)
		if _, gone := got.Tags["k1"]; len(got.Tags) != 49 || got.Tags["old"] != "2" || gone || got.Tags["a"] != "" {
			t.Errorf("%s has %d tags: %v", what, len(got.Tags), got.Tags)
		}
	}
}

func TestAnAssociationIsOfOneServiceAccount(t *testing.T) {
	svc, _, _ := newService(Cluster{Name: "k"})
	create := func(namespace, account, role, token string) (id, code string) {
		t.Helper()
		var got struct {
			Association struct{ AssociationID, AssociationArn, RoleArn string }
		}
		code = do(t, svc, "POST /pod-identity-associations", fmt.Sprintf(`{"namespace":%q,"serviceAccount":%q,"roleArn":%q,"clientRequestToken":%q}`, namespace, account, role, token), &got)
		if a := got.Association; code == "" && (a.AssociationArn != "arn:aws:eks:us-east-1:1:podidentityassociation/k/"+a.AssociationID || a.RoleArn != role) {
			t.Errorf("association %+v", a)
		}
		return got.Association.AssociationID, code
	}
	first, code := create("n", "s", principal, "t")
	if code != "" {
		t.Fatal(code)
	}
	for name, tt := range map[string]struct{ namespace, account, role, token, code string }{
		"the same by its token":     {"n", "s", principal, "t", ""},
		"the same by another token": {"n", "s", principal, "u", "ResourceInUseException"},
		"the same without a token":  {"n", "s", principal, "", "ResourceInUseException"},
		"one of another namespace":  {"m", "s", principal, "v", ""},
		"one of another account":    {"n", "r", principal, "w", ""},
		"one of no account":         {"n", "", principal, "", "InvalidParameterException"},
		"one of no namespace":       {"", "s", principal, "", "InvalidParameterException"},
		"one of a role that is not": {"n", "q", "arn:none", "", "InvalidParameterException"},
	} {
		id, code := create(tt.namespace, tt.account, tt.role, tt.token)
		if code != tt.code || (id == first) != (name == "the same by its token") {
			t.Errorf("%s: id %q and code %q, want the code %q", name, id, code, tt.code)
		}
	}
	if _, code := create("z", "s", principal, ""); code != "" {
		t.Fatal(code)
	}
	if _, code := create("z", "s", principal, ""); code != "ResourceInUseException" {
		t.Errorf("the same, both without a token: %q", code)
	}
	path := "/pod-identity-associations/" + first
	for _, step := range []struct{ request, body, code string }{
		{"POST " + path, `{"roleArn":"arn:none"}`, "InvalidParameterException"},
		{"POST " + path, `{}`, ""},
		{"POST " + path, `{"namespace":"m"}`, "ValidationException"},
		{"DELETE " + path, "", ""},
		{"DELETE " + path, "", "ResourceNotFoundException"},
		{"GET " + path, "", "ResourceNotFoundException"},
		{"POST " + path, `{"roleArn":"` + principal + `"}`, "ResourceNotFoundException"},
	} {
		if code := do(t, svc, step.request, step.body, nil); code != step.code {
			t.Errorf("%s %s: %q, want %q", step.request, step.body, code, step.code)
		}
	}
}

func TestAClusterIsValidated(t *testing.T) {
	good := Cluster{Name: "k", Version: "1.33", ServiceCIDR: "172.20.0.0/16", Logging: []string{"api"},
		NodeGroups: []NodeGroup{{Name: "g", Min: 0, Desired: 0, Max: 1, Taints: []string{"a=b:NO_SCHEDULE", "c:NO_EXECUTE"}, CapacityType: "SPOT"}}}
	for name, tt := range map[string]struct {
		change func(*Cluster)
		ok     bool
	}{
		"as it should be":                  {func(*Cluster) {}, true},
		"without a name":                   {func(c *Cluster) { c.Name = "" }, false},
		"without a version":                {func(c *Cluster) { c.Version = "" }, false},
		"of a version with a patch":        {func(c *Cluster) { c.Version = "1.33.1" }, false},
		"without a range of services":      {func(c *Cluster) { c.ServiceCIDR = "" }, false},
		"with an unknown log":              {func(c *Cluster) { c.Logging = []string{"kubelet"} }, false},
		"with a group without a name":      {func(c *Cluster) { c.NodeGroups[0].Name = "" }, false},
		"with a group of no maximum":       {func(c *Cluster) { c.NodeGroups[0].Max = 0 }, false},
		"with a group over its maximum":    {func(c *Cluster) { c.NodeGroups[0].Desired = 2 }, false},
		"with a group below its minimum":   {func(c *Cluster) { c.NodeGroups[0].Min = 1 }, false},
		"with a taint of another effect":   {func(c *Cluster) { c.NodeGroups[0].Taints = []string{"a=b:NoSchedule"} }, false},
		"with a taint without an effect":   {func(c *Cluster) { c.NodeGroups[0].Taints = []string{"a=b"} }, false},
		"with a taint without a key":       {func(c *Cluster) { c.NodeGroups[0].Taints = []string{"=b:NO_SCHEDULE"} }, false},
		"with a capacity in small letters": {func(c *Cluster) { c.NodeGroups[0].CapacityType = "spot" }, false},
	} {
		c := good
		c.NodeGroups = slices.Clone(good.NodeGroups)
		tt.change(&c)
		if err := c.Validate(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestACallIsAuthorizedForWhatItsPathNames(t *testing.T) {
	svc := furnished(t)
	svc.tags["team"] = "ml"
	svc.nodeGroups["a"].tags["g"] = "1"
	const eks = "arn:aws:eks:us-east-1:1:"
	tags, context := map[string]string{"team": "ml"}, map[string][]string{"eks:principalArn": {principal}, "eks:accessEntryType": {"STANDARD"}}
	cluster := func(action string) api.AuthorizationRequest {
		return api.AuthorizationRequest{Action: "eks:" + action, Resource: eks + "cluster/k", Tags: tags}
	}
	passed := api.AuthorizationRequest{Action: "iam:PassRole", Resource: "arn:node", RequestTags: map[string]string{"service": "pods.eks"}}
	making := cluster("CreateAccessEntry")
	making.RequestTags, making.Context = map[string]string{"a": "b"}, map[string][]string{"eks:principalArn": {principal}, "eks:accessEntryType": {"EC2_LINUX"}}
	settings := cluster("UpdateClusterConfig")
	settings.Context = map[string][]string{"eks:endpointPublicAccess": {"false"}, "eks:supportType": {"STANDARD"}}
	for name, tt := range map[string]struct {
		request, body string
		want          []api.AuthorizationRequest
	}{
		"the cluster":                     {"GET /clusters/k", "", []api.AuthorizationRequest{cluster("DescribeCluster")}},
		"another cluster":                 {"GET /clusters/other", "", []api.AuthorizationRequest{{Action: "eks:DescribeCluster", Resource: eks + "cluster/other"}}},
		"the settings of the cluster":     {"POST /clusters/k/update-config", `{"resourcesVpcConfig":{"endpointPublicAccess":false},"upgradePolicy":{"supportType":"STANDARD"}}`, []api.AuthorizationRequest{settings}},
		"a node group":                    {"GET /clusters/k/node-groups/a", "", []api.AuthorizationRequest{{Action: "eks:DescribeNodegroup", Resource: svc.nodeGroupARN(svc.nodeGroups["a"]), Tags: map[string]string{"g": "1"}}}},
		"a node group that there is not":  {"GET /clusters/k/node-groups/z", "", []api.AuthorizationRequest{{Action: "eks:DescribeNodegroup", Resource: eks + "nodegroup/k/z/*"}}},
		"a node group of another cluster": {"GET /clusters/other/node-groups/a", "", []api.AuthorizationRequest{{Action: "eks:DescribeNodegroup", Resource: eks + "nodegroup/other/a/*"}}},
		"an update of a node group":       {"GET /clusters/k/updates/u?nodegroupName=a", "", []api.AuthorizationRequest{{Action: "eks:DescribeUpdate", Resource: svc.nodeGroupARN(svc.nodeGroups["a"]), Tags: map[string]string{"g": "1"}}}},
		"an update of the cluster":        {"GET /clusters/k/updates/u", "", []api.AuthorizationRequest{cluster("DescribeUpdate")}},
		"an add-on":                       {"GET /clusters/k/addons/x", "", []api.AuthorizationRequest{{Action: "eks:DescribeAddon", Resource: svc.addonARN(svc.addons["x"]), Tags: map[string]string{}}}},
		"an entry":                        {"GET /clusters/k/access-entries/" + principal, "", []api.AuthorizationRequest{{Action: "eks:DescribeAccessEntry", Resource: svc.entries[principal].arn, Tags: map[string]string{}, Context: context}}},
		"an entry that there is not":      {"GET /clusters/k/access-entries/" + url.PathEscape("arn:aws:iam::1:role/x/y"), "", []api.AuthorizationRequest{{Action: "eks:DescribeAccessEntry", Resource: eks + "access-entry/k/role/1/y/*"}}},
		"a new entry with tags": {"POST /clusters/k/access-entries", `{"principalArn":"` + principal + `","type":"EC2_LINUX","tags":{"a":"b"}}`, []api.AuthorizationRequest{
			making, {Action: "eks:TagResource", Resource: eks + "access-entry/k/role/1/arn:node/*", RequestTags: making.RequestTags}}},
		"a new association passes a role": {"POST /clusters/k/pod-identity-associations", `{"roleArn":"` + principal + `"}`, []api.AuthorizationRequest{cluster("CreatePodIdentityAssociation"), passed}},
		"an association keeps its role":   {"POST /clusters/k/pod-identity-associations/a-1", `{}`, []api.AuthorizationRequest{{Action: "eks:UpdatePodIdentityAssociation", Resource: eks + "podidentityassociation/k/a-1"}}},
		"an association gets a role":      {"POST /clusters/k/pod-identity-associations/a-1", `{"roleArn":"` + principal + `"}`, []api.AuthorizationRequest{{Action: "eks:UpdatePodIdentityAssociation", Resource: eks + "podidentityassociation/k/a-1"}, passed}},
		"tags of the cluster that go":     {"DELETE /tags/" + url.PathEscape(eks+"cluster/k") + "?tagKeys=a&tagKeys=b", "", []api.AuthorizationRequest{{Action: "eks:UntagResource", Resource: eks + "cluster/k", Tags: tags, Keys: []string{"a", "b"}}}},
		"all clusters":                    {"GET /clusters", "", []api.AuthorizationRequest{{Action: "eks:ListClusters", Resource: "*"}}},
	} {
		method, path, _ := strings.Cut(tt.request, " ")
		path, text, _ := strings.Cut(path, "?")
		values, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		op := Route(method, path)
		got := svc.Table().Authorizations[op](&api.Call{Op: op, Target: method + " " + path, Query: values, Body: []byte(tt.body)})
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
