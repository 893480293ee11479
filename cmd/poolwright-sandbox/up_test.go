package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/setups"
)

func TestTheSandboxConfigOfASetUpYieldsToFlags(t *testing.T) {
	cfg := setups.All()[0].SandboxConfig()
	cmd := &cobra.Command{}
	addSandboxFlags(cmd, &cfg)
	if err := cmd.ParseFlags([]string{"--region=eu-north-1", "--join-delay=3s"}); err != nil {
		t.Fatal(err)
	}
	if err := applySetup(cmd, &cfg, "pingvas"); err != nil {
		t.Fatal(err)
	}
	c := cfg.AWS.Cluster
	if c.Name != "pingvas-studio-cluster" || c.Version != "1.32" || len(c.NodeGroups) != 1 || cfg.AWS.Region != "eu-north-1" || cfg.Nodes.Join.Seconds() != 3 {
		t.Errorf("the config is %+v in %s, nodes join after %s", c, cfg.AWS.Region, cfg.Nodes.Join)
	}
	if err := applySetup(cmd, &cfg, "nope"); err == nil || !strings.Contains(err.Error(), "baseten") {
		t.Errorf("a set-up that is not there: %v", err)
	}
}

func TestTheNamesOfSetUpsAreCompleted(t *testing.T) {
	for _, command := range []string{"up", "demo"} {
		cmd, _, err := newRoot().Find([]string{command})
		if err != nil {
			t.Fatal(err)
		}
		complete, found := cmd.GetFlagCompletionFunc("setup")
		if !found {
			t.Fatalf("%s completes no set-up", command)
		}
		if got, _ := complete(cmd, nil, ""); !slices.Contains(got, "piksel") || len(got) != len(setups.All()) {
			t.Errorf("%s completes %q", command, got)
		}
	}
}
