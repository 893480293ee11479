package iam

import (
	"encoding/json"
	"strings"
	"testing"
)

func sandbox() Values {
	return Values{Partition: "aws", Region: "us-east-1", Account: "000000000000", Cluster: "sandbox", NodeRole: "KarpenterNodeRole-sandbox", Queue: "sandbox"}
}

var policies = map[string]func(Values) (string, error){"Resources": Resources, "Deny": Deny, "Engine": Engine, "Report": Report, "Boundary": Boundary}

func TestPoliciesAreJSONWithoutPlaceholders(t *testing.T) {
	for name, policy := range policies {
		text, err := policy(sandbox())
		if err != nil {
			t.Fatal(name, err)
		}
		if !json.Valid([]byte(text)) || strings.Contains(text, "$") {
			t.Errorf("%s is %s", name, text)
		}
	}
}

func TestTheLongestNamesFit(t *testing.T) {
	long := Values{
		Partition: "aws-us-gov", Region: "ap-northeast-10", Account: "000000000000",
		Cluster: strings.Repeat("c", 100), NodeRole: strings.Repeat("n", 64), Queue: strings.Repeat("q", 80),
	}
	long.InstanceProfile, long.PermissionsBoundary, long.ControllerRole = strings.Repeat("i", 128), strings.Repeat("b", 128), strings.Repeat("r", 64)
	long.DiscoveryKey, long.DiscoveryValue = strings.Repeat("d", 128), strings.Repeat("v", 256)
	for name, policy := range policies {
		text, err := policy(long)
		if err != nil {
			t.Error(err)
			continue
		}
		t.Logf("%s has %d of %d characters", name, size(text), limit)
	}
}

func TestValuesThatAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Values)
		texts  string
	}{
		"no partition":                                  {func(v *Values) { v.Partition = "" }, "Partition"},
		"another partition":                             {func(v *Values) { v.Partition = "*" }, "Partition"},
		"no region":                                     {func(v *Values) { v.Region = "" }, "Region"},
		"every region":                                  {func(v *Values) { v.Region = "*" }, "Region"},
		"a short account":                               {func(v *Values) { v.Account = "1" }, "Account"},
		"no cluster":                                    {func(v *Values) { v.Cluster = "" }, "Cluster"},
		"a cluster that ends the string":                {func(v *Values) { v.Cluster = `a","Action":"*` }, "Cluster"},
		"a cluster that is all clusters":                {func(v *Values) { v.Cluster = "*" }, "Cluster"},
		"a cluster that is a variable":                  {func(v *Values) { v.Cluster = "${aws:username}" }, "Cluster"},
		"a cluster that is a placeholder":               {func(v *Values) { v.Cluster = "${Account}" }, "Cluster"},
		"a cluster on two lines":                        {func(v *Values) { v.Cluster = "a\n" }, "Cluster"},
		"no node role":                                  {func(v *Values) { v.NodeRole = "" }, "NodeRole"},
		"a node role with a path":                       {func(v *Values) { v.NodeRole = "a/b" }, "NodeRole"},
		"the controller's own role":                     {func(v *Values) { v.NodeRole = "Poolwright-sandbox-us-east-1" }, "own role"},
		"the role that was declared for the controller": {func(v *Values) { v.ControllerRole = v.NodeRole }, "own role"},
		"a value that is every value":                   {func(v *Values) { v.DiscoveryValue = "*" }, "DiscoveryValue"},
		"an old value that begins somehow":              {func(v *Values) { v.DiscoveryOld = "a*" }, "DiscoveryOld"},
		"a cluster that is too long":                    {func(v *Values) { v.Cluster = strings.Repeat("c", 101) }, "1 to 100"},
		"a node role that is too long":                  {func(v *Values) { v.NodeRole = strings.Repeat("n", 65) }, "1 to 64"},
		"an old value that is too long":                 {func(v *Values) { v.DiscoveryOld = strings.Repeat("v", 257) }, "DiscoveryOld"},
		"no queue":                                      {func(v *Values) { v.Queue = "" }, "Queue"},
		"a queue of another account":                    {func(v *Values) { v.Queue = "1:q" }, "Queue"},
		"a profile with a wildcard":                     {func(v *Values) { v.InstanceProfile = "a?" }, "InstanceProfile"},
		"a boundary with a path":                        {func(v *Values) { v.PermissionsBoundary = "a/b" }, "PermissionsBoundary"},
		"a tag that is every tag":                       {func(v *Values) { v.DiscoveryKey = "*" }, "DiscoveryKey"},
		"the tag of ownership":                          {func(v *Values) { v.DiscoveryKey = "kubernetes.io/cluster/sandbox" }, "tag of ownership"},
	} {
		t.Run(name, func(t *testing.T) {
			v := sandbox()
			test.change(&v)
			for policy, write := range policies {
				if text, err := write(v); err == nil || text != "" || !strings.Contains(err.Error(), test.texts) {
					t.Errorf("%s: %v %s", policy, err, text)
				}
			}
		})
	}
}

func TestPlaceholdersThatAreUnknownAreErrors(t *testing.T) {
	for _, text := range []string{"${Nobody}", "${Region", "${ Region }", "${}", "${Empty}"} {
		if out, err := fill("a"+text+"b", map[string]string{"Region": "r", "Empty": ""}); err == nil {
			t.Errorf("%s became %s", text, out)
		}
	}
}

func FuzzValues(f *testing.F) {
	f.Add("sandbox", "nodes", "queue", "karpenter.sh/discovery")
	f.Add(`a","Resource":"*`, `\`, "${Region}", "*")
	f.Fuzz(func(t *testing.T, cluster, role, queue, key string) {
		v := sandbox()
		v.Cluster, v.NodeRole, v.Queue, v.DiscoveryKey = cluster, role, queue, key
		text, err := Resources(v)
		if err != nil {
			return
		}
		plain, err := Resources(sandbox())
		if err != nil {
			t.Fatal(err)
		}
		// Nothing but the values differs: no quote, bracket or wildcard came in.
		for _, c := range `"{}[]*?\$` {
			if strings.Count(text, string(c)) != strings.Count(plain, string(c)) {
				t.Fatalf("%q %q %q %q change the number of %c", cluster, role, queue, key, c)
			}
		}
	})
}
