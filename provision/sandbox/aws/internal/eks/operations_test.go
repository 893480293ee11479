package eks

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

const principal = "arn:node" // of the role that there is

// do requests a method and a path below that of the cluster (or one that begins with /tags)
// and decodes what it returns; code is that of the error, "" without one.
func do(t *testing.T, svc *Service, request, body string, response any) (code string) {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	path, text, _ := strings.Cut(path, "?")
	if !strings.HasPrefix(path, "/tags/") {
		path = "/clusters/k" + path
	}
	values, err := url.ParseQuery(text)
	if err != nil {
		t.Fatal(err)
	}
	in := &api.Call{Op: Route(method, path), Target: method + " " + path, Query: values, Body: []byte(body), Now: svc.account.Clock.Now()}
	operation, emulated := svc.Table().Operations[in.Op]
	if !emulated {
		t.Fatalf("%s is no operation", request)
	}
	out, err := operation.Run(in)
	if failed, is := errors.AsType[*api.Error](err); is {
		return failed.Code
	}
	if err == nil && response != nil {
		var written []byte
		if written, err = json.Marshal(out); err == nil {
			err = json.Unmarshal(written, response)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return ""
}

// entry is an access entry as EKS shows it.
type entry struct {
	PrincipalArn, AccessEntryArn, Type, Username string
	KubernetesGroups                             []string
	Tags                                         map[string]string
}

func TestAnAccessEntryHasTheNamesOfItsType(t *testing.T) {
	const nodeName = "system:node:{{EC2PrivateDNSName}}"
	for name, tt := range map[string]struct {
		members string
		want    entry
		code    string
	}{
		"of no type, which is STANDARD":          {``, entry{Type: "STANDARD", Username: "arn:aws:sts::1:assumed-role/node/{{SessionName}}"}, ""},
		"of STANDARD with names":                 {`"type":"STANDARD","username":"u:{{SessionName}}","kubernetesGroups":["a","b"]`, entry{Type: "STANDARD", Username: "u:{{SessionName}}", KubernetesGroups: []string{"a", "b"}}, ""},
		"of Linux nodes":                         {`"type":"EC2_LINUX"`, entry{Type: "EC2_LINUX", Username: nodeName, KubernetesGroups: []string{"system:nodes"}}, ""},
		"of Linux nodes with empty groups":       {`"type":"EC2_LINUX","kubernetesGroups":[]`, entry{Type: "EC2_LINUX", Username: nodeName, KubernetesGroups: []string{"system:nodes"}}, ""},
		"of Fargate":                             {`"type":"FARGATE_LINUX"`, entry{Type: "FARGATE_LINUX", Username: "system:node:{{SessionName}}", KubernetesGroups: []string{"system:bootstrappers", "system:nodes", "system:node-proxier"}}, ""},
		"with tags":                              {`"tags":{"a":""}`, entry{Type: "STANDARD", Username: "arn:aws:sts::1:assumed-role/node/{{SessionName}}", Tags: map[string]string{"a": ""}}, ""},
		"not of a type in small letters":         {`"type":"ec2_linux"`, entry{}, "InvalidParameterException"},
		"not of Linux nodes with a user name":    {`"type":"EC2_LINUX","username":"me"`, entry{}, "InvalidParameterException"},
		"not of Linux nodes with groups":         {`"type":"EC2_LINUX","kubernetesGroups":["g"]`, entry{}, "InvalidParameterException"},
		"not with a user name of Kubernetes":     {`"username":"system:admin"`, entry{}, "InvalidParameterException"},
		"not with a user name of EKS":            {`"username":"eks:me"`, entry{}, "InvalidParameterException"},
		"not with a user name of AWS":            {`"username":"aws:me"`, entry{}, "InvalidParameterException"},
		"not with a user name of Amazon":         {`"username":"amazon:me"`, entry{}, "InvalidParameterException"},
		"not with a user name of IAM":            {`"username":"iam:me"`, entry{}, "InvalidParameterException"},
		"with a user name that begins otherwise": {`"username":"awsome"`, entry{Type: "STANDARD", Username: "awsome"}, ""},
		"not in a group of Kubernetes":           {`"kubernetesGroups":["a","system:masters"]`, entry{}, "InvalidParameterException"},
		"not in a group without a name":          {`"kubernetesGroups":[""]`, entry{}, "InvalidParameterException"},
		"not with a member that is not emulated": {`"policy":"x"`, entry{}, "ValidationException"},
	} {
		t.Run(name, func(t *testing.T) {
			svc, _, _ := newService(Cluster{Name: "k"})
			body := `{"principalArn":"` + principal + `"`
			if tt.members != "" {
				body += "," + tt.members
			}
			var made, observed struct{ AccessEntry entry }
			if code := do(t, svc, "POST /access-entries", body+"}", &made); code != tt.code || (len(svc.entries) == 1) != (code == "") {
				t.Fatalf("code %q and %d entries, want %q", code, len(svc.entries), tt.code)
			}
			if tt.code != "" {
				return
			}
			do(t, svc, "GET /access-entries/"+principal, "", &observed)
			if diff := cmp.Diff(made, observed); diff != "" {
				t.Errorf("made and described differ:\n%s", diff)
			}
			got := observed.AccessEntry
			if !strings.HasPrefix(got.AccessEntryArn, "arn:aws:eks:us-east-1:1:access-entry/k/role/1/node/") || got.PrincipalArn != principal {
				t.Errorf("entry %+v", got)
			}
			got.AccessEntryArn, got.PrincipalArn = "", ""
			if len(got.Tags) == 0 {
				got.Tags = nil
			}
			if len(got.KubernetesGroups) == 0 {
				got.KubernetesGroups = nil
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("entry (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnAccessEntryIsMadeOnceAndChanged(t *testing.T) {
	svc, _, _ := newService(Cluster{Name: "k"})
	create := func(principal, token string) string {
		return do(t, svc, "POST /access-entries", fmt.Sprintf(`{"principalArn":%q,"clientRequestToken":%q,"kubernetesGroups":["a"]}`, principal, token), nil)
	}
	for _, step := range []struct{ principal, token, code string }{
		{principal, "", ""}, {principal, "", "ResourceInUseException"}, {principal, "t", "ResourceInUseException"}, {"arn:none", "t", "InvalidParameterException"},
	} {
		if code := create(step.principal, step.token); code != step.code {
			t.Errorf("entry of %s by %q: %q, want %q", step.principal, step.token, code, step.code)
		}
	}
	do(t, svc, "DELETE /access-entries/"+principal, "", nil)
	if a, b, c := create(principal, "t"), create(principal, "t"), create(principal, "u"); a != "" || b != "" || c != "ResourceInUseException" {
		t.Errorf("by a token, by the same, and by another: %q, %q, %q", a, b, c)
	}
	update := "POST /access-entries/" + principal
	for name, step := range map[string]struct{ body, code string }{
		"a principal":               {`{"principalArn":"x"}`, "ValidationException"},
		"a type":                    {`{"type":"EC2_LINUX"}`, "ValidationException"},
		"tags":                      {`{"tags":{"a":"b"}}`, "ValidationException"},
		"a user name of Kubernetes": {`{"username":"system:x","kubernetesGroups":["b"]}`, "InvalidParameterException"},
		"a group of Kubernetes":     {`{"username":"x","kubernetesGroups":["system:x"]}`, "InvalidParameterException"},
		"a body that is no JSON":    {`{`, "ValidationException"},
	} {
		if code := do(t, svc, update, step.body, nil); code != step.code {
			t.Errorf("changing %s: %q, want %q", name, code, step.code)
		}
	}
	nodes, _, _ := newService(Cluster{Name: "k"})
	do(t, nodes, "POST /access-entries", `{"principalArn":"`+principal+`","type":"EC2_LINUX"}`, nil)
	for body, want := range map[string]string{`{"username":"x"}`: "InvalidParameterException", `{"kubernetesGroups":["x"]}`: "InvalidParameterException", `{"kubernetesGroups":[]}`: ""} {
		if code := do(t, nodes, update, body, nil); code != want || !slices.Equal(nodes.entries[principal].groups, []string{"system:nodes"}) {
			t.Errorf("changing an entry of nodes by %s: %q and the groups %q, want %q", body, code, nodes.entries[principal].groups, want)
		}
	}
	for _, step := range []struct {
		body, user string
		groups     []string
	}{
		{`{}`, "arn:aws:sts::1:assumed-role/node/{{SessionName}}", []string{"a"}},
		{`{"username":"x"}`, "x", []string{"a"}},
		{`{"kubernetesGroups":["b","c"]}`, "x", []string{"b", "c"}},
		{`{"kubernetesGroups":[]}`, "x", []string{}},
	} {
		var got struct{ AccessEntry entry }
		if code := do(t, svc, update, step.body, &got); code != "" || got.AccessEntry.Username != step.user || !slices.Equal(got.AccessEntry.KubernetesGroups, step.groups) {
			t.Errorf("after %s: %+v (%s)", step.body, got.AccessEntry, code)
		}
	}
}

// groups has a node group with all that can be changed of it.
func groups() Cluster {
	return Cluster{Name: "k", NodeGroups: []NodeGroup{
		{Name: "g", Min: 1, Desired: 2, Max: 3, Labels: map[string]string{"a": "1"}, Taints: []string{"k=v:NO_SCHEDULE"}}, {Name: "h", Max: 1},
	}}
}

func TestANodeGroupTakesWhatTheModelOfEKSTakes(t *testing.T) {
	long := strings.Repeat("a", 63)
	label := func(k, v string) string { return fmt.Sprintf(`{"labels":{"addOrUpdateLabels":{%q:%q}}}`, k, v) }
	taint := func(k, v, effect string) string {
		return fmt.Sprintf(`{"taints":{"addOrUpdateTaints":[{"key":%q,"value":%q,"effect":%q}]}}`, k, v, effect)
	}
	const bad = "InvalidParameterException"
	for name, tt := range map[string]struct{ body, code string }{
		"sizes from 0 to 1":                     {`{"scalingConfig":{"minSize":0,"desiredSize":0,"maxSize":1}}`, ""},
		"sizes that are equal":                  {`{"scalingConfig":{"minSize":3,"desiredSize":3}}`, ""},
		"no maximum of 0":                       {`{"scalingConfig":{"minSize":0,"desiredSize":0,"maxSize":0}}`, bad},
		"no minimum below 0":                    {`{"scalingConfig":{"minSize":-1}}`, bad},
		"no minimum over the desired size":      {`{"scalingConfig":{"minSize":3}}`, bad},
		"no desired size over the maximum":      {`{"scalingConfig":{"desiredSize":4}}`, bad},
		"no maximum below the desired size":     {`{"scalingConfig":{"maxSize":1}}`, bad},
		"a label of 63 characters":              {label(long, long), ""},
		"no label of 64 characters":             {label(long+"a", "b"), bad},
		"no label's value of 64 characters":     {label("a", long+"a"), bad},
		"no label without a key":                {label("", "b"), bad},
		"no label without a value":              {label("a", ""), bad},
		"a label that goes and was never there": {`{"labels":{"removeLabels":["never"]}}`, ""},
		"no label that comes and goes":          {`{"labels":{"addOrUpdateLabels":{"a":"2"},"removeLabels":["a"]}}`, bad},
		"a taint of 63 characters":              {taint(long, long, "NO_EXECUTE"), ""},
		"a taint without a value":               {taint("a", "", "PREFER_NO_SCHEDULE"), ""},
		"no taint of 64 characters":             {taint(long+"a", "", "NO_EXECUTE"), bad},
		"no taint's value of 64 characters":     {taint("a", long+"a", "NO_EXECUTE"), bad},
		"no taint without a key":                {taint("", "b", "NO_EXECUTE"), bad},
		"no taint of the effect of Kubernetes":  {taint("a", "b", "NoExecute"), bad},
		"no taint without an effect":            {taint("a", "b", ""), bad},
		"a taint that changes its effect":       {`{"taints":{"addOrUpdateTaints":[{"key":"k","effect":"NO_EXECUTE"}],"removeTaints":[{"key":"k","effect":"NO_SCHEDULE"}]}}`, ""},
		"no taint that comes and goes":          {`{"taints":{"addOrUpdateTaints":[{"key":"k","value":"x","effect":"NO_EXECUTE"}],"removeTaints":[{"key":"k","effect":"NO_EXECUTE"}]}}`, bad},
		"no change":                             {`{}`, bad},
		"no change that is not emulated":        {`{"updateConfig":{"maxUnavailable":1}}`, "ValidationException"},
		"no change of another group's name":     {`{"nodegroupName":"h"}`, "ValidationException"},
	} {
		svc, _, _ := newService(groups())
		if code := do(t, svc, "POST /node-groups/g/update-config", tt.body, nil); code != tt.code || (svc.running("g") != nil) != (code == "") {
			t.Errorf("%s: %q and the update %v, want %q", name, code, svc.running("g"), tt.code)
		}
	}
}

// updated is an update as EKS shows it.
type updated struct {
	Update struct {
		ID, Status, Type string
		Params           []updateParam
	}
}

func TestAnUpdateRunsAloneOnItsGroup(t *testing.T) {
	svc, clock, _ := newService(groups())
	const g, h = "POST /node-groups/g/update-config", "POST /node-groups/h/update-config"
	const size = `{"scalingConfig":{"maxSize":5},"clientRequestToken":"t"}`
	const logging = `{"logging":{"clusterLogging":[{"types":["api"],"enabled":true}]},"clientRequestToken":"l"}`
	var first, again, onCluster updated
	for name, step := range map[string]string{
		"the first": do(t, svc, g, size, &first), "the same again": do(t, svc, g, size, &again),
		"one of another group": do(t, svc, h, `{"labels":{"addOrUpdateLabels":{"a":"b"}}}`, nil), "one of the cluster": do(t, svc, "POST /update-config", logging, &onCluster),
	} {
		if step != "" {
			t.Errorf("%s: %s", name, step)
		}
	}
	for request, body := range map[string]string{g: `{"scalingConfig":{"maxSize":6}}`, "POST /update-config": `{"logging":{"clusterLogging":[{"types":["audit"],"enabled":true}]}}`} {
		if code := do(t, svc, request, body, nil); code != "ResourceInUseException" {
			t.Errorf("a second one, %s: %q", request, code)
		}
	}
	want := []updateParam{{"MaxSize", "5"}}
	if diff := cmp.Diff(want, first.Update.Params); diff != "" || again.Update.ID != first.Update.ID || first.Update.Status != "InProgress" || first.Update.Type != "ConfigUpdate" || len(svc.updates) != 3 {
		t.Errorf("%d updates, the first %+v, the same again %+v", len(svc.updates), first.Update, again.Update)
	}
	at := func(path string) (status string) {
		t.Helper()
		var got updated
		if code := do(t, svc, "GET /updates/"+path, "", &got); code != "" {
			return code
		}
		return got.Update.Status
	}
	for path, want := range map[string]string{
		first.Update.ID + "?nodegroupName=g": "InProgress", first.Update.ID: "ResourceNotFoundException", first.Update.ID + "?nodegroupName=h": "ResourceNotFoundException",
		onCluster.Update.ID: "InProgress", onCluster.Update.ID + "?nodegroupName=g": "ResourceNotFoundException", "none": "ResourceNotFoundException",
	} {
		if got := at(path); got != want {
			t.Errorf("update %s: %q, want %q", path, got, want)
		}
	}
	for _, end := range clock.later {
		end()
	}
	if a, b := at(first.Update.ID+"?nodegroupName=g"), at(onCluster.Update.ID); a != "Successful" || b != "Successful" || svc.nodeGroups["g"].Max != 5 || svc.nodeGroups["h"].Labels["a"] != "b" {
		t.Errorf("in the end %s and %s; groups %+v and %+v", a, b, svc.nodeGroups["g"], svc.nodeGroups["h"])
	}
	if code := do(t, svc, g, `{"scalingConfig":{"maxSize":6}}`, nil); code != "" {
		t.Errorf("after its end: %s", code)
	}
}

func TestAnUpdateChangesNothingBeforeItsEnd(t *testing.T) {
	svc, clock, _ := newService(groups())
	const body = `{"scalingConfig":{"desiredSize":3},"labels":{"addOrUpdateLabels":{"b":"2"},"removeLabels":["a"]},
		"taints":{"addOrUpdateTaints":[{"key":"k","value":"new","effect":"NO_SCHEDULE"},{"key":"k","effect":"NO_EXECUTE"}]}}`
	type got struct {
		Nodegroup struct {
			Status        string
			ScalingConfig map[string]int
			Labels, Tags  map[string]string
			Taints        []taint
		}
	}
	show := func() (out got) {
		t.Helper()
		if code := do(t, svc, "GET /node-groups/g", "", &out); code != "" {
			t.Fatal(code)
		}
		return out
	}
	before := show()
	if code := do(t, svc, "POST /node-groups/g/update-config", body, nil); code != "" {
		t.Fatal(code)
	}
	before.Nodegroup.Status = "UPDATING"
	if diff := cmp.Diff(before, show()); diff != "" {
		t.Errorf("while it runs (-before +after):\n%s", diff)
	}
	if code := do(t, svc, "POST /tags/"+url.PathEscape(svc.nodeGroupARN(svc.nodeGroups["g"])), `{"tags":{"t":"1"}}`, nil); code != "" {
		t.Fatal(code)
	}
	for _, end := range clock.later {
		end()
	}
	var want got
	want.Nodegroup.Status, want.Nodegroup.ScalingConfig = "ACTIVE", map[string]int{"minSize": 1, "desiredSize": 3, "maxSize": 3}
	want.Nodegroup.Labels, want.Nodegroup.Tags = map[string]string{"b": "2"}, map[string]string{"t": "1"}
	want.Nodegroup.Taints = []taint{{"k", "new", "NO_SCHEDULE"}, {"k", "", "NO_EXECUTE"}}
	if diff := cmp.Diff(want, show()); diff != "" {
		t.Errorf("when it is done (-want +got):\n%s", diff)
	}
}
