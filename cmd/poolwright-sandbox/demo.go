package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/setups"
	"github.com/poolwright/poolwright/provision/sandbox"
)

// demo is what the user asked for.
type demo struct {
	output     string
	keep       bool
	poolwright string
	example    string
	deadline   time.Duration
}

func newDemo() *cobra.Command {
	var d demo
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Tell the main job as a timeline: Git to GPU node to zero",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return d.run(cmd) },
	}
	cmd.Flags().StringVarP(&d.output, "output", "o", "text", "text, or json: one event a line")
	cmd.Flags().BoolVar(&d.keep, "keep", false, "leave the world up at the end and say how to look around")
	cmd.Flags().StringVar(&d.poolwright, "poolwright", "", "the poolwright binary (default: the one beside this program)")
	cmd.Flags().DurationVar(&d.deadline, "deadline", chapterDeadline, "how long each step of the story may take")
	cmd.Flags().StringVar(&d.example, "example", filepath.Join("examples", "altanova"), "a changed copy of examples/altanova; the story is told of its cluster and pools")
	return cmd
}

func (d *demo) run(cmd *cobra.Command) (err error) {
	ctx, out, progress := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	start := time.Now()
	var tell teller
	switch d.output {
	case "text":
		tell = &textTeller{out: out, start: start}
	case "json":
		tell = jsonTeller{out: out}
	default:
		return fmt.Errorf("-o %q is not one of text, json", d.output)
	}
	binary, err := d.binary()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(d.example, syncPath)); err != nil {
		return fmt.Errorf("the example %s has no folder %s; run this in the clone, or name an example with --example", d.example, syncPath)
	}
	cfg := exampleWorld()
	cfg.Progress = progress
	world, err := sandbox.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Stop()) }()
	s := &story{world: world, marks: newTimeline(), tell: tell, deadline: d.deadline}
	s.marks.mark(worldReady, cfg.AWS.Cluster.Name, "API server, scheduler, controllers, AWS, Gitea: all on loopback", time.Now())
	if err = s.tellOn(ctx, d, binary); ctx.Err() != nil {
		// What failed then failed because somebody wanted it to end.
		return errors.New("interrupted")
	}
	if d.keep && s.controller != nil {
		if err != nil {
			fmt.Fprintln(progress, "Error:", err)
		}
		fmt.Fprintf(progress, "\nlook around:\n")
		exports(progress, world)
		fmt.Fprintf(progress, "%s get syncs -A\n%s get nodepools,nodeclaims,nodes\n", world.Kubectl, world.Kubectl)
		fmt.Fprintf(progress, "tail -f %s\n", s.controller.Log())
		err = errors.Join(err, stay(ctx, progress, world, s.controller))
	}
	return err
}

// tellOn prepares the world for the story and tells it.
func (s *story) tellOn(ctx context.Context, d *demo, binary string) error {
	var err error
	if s.kube, err = kubernetes.NewForConfig(s.world.REST()); err != nil {
		return fmt.Errorf("connecting to the world: %w", err)
	}
	if s.dyn, err = dynamic.NewForConfig(s.world.REST()); err != nil {
		return fmt.Errorf("connecting to the world: %w", err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemNamespace}}
	if _, err := s.kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", systemNamespace, err)
	}
	if s.repo, err = s.makeRepository(ctx, d.example); err != nil {
		return err
	}
	if err := s.witness(ctx); err != nil {
		return err
	}
	s.binary = binary
	return s.run(ctx)
}

// makeRepository is what a platform team does once: a user, a token, an empty
// repository and a working copy of the example.
func (s *story) makeRepository(ctx context.Context, example string) (*repo, error) {
	team, err := s.world.Git.CreateUser(ctx, "platform-team")
	if err != nil {
		return nil, err
	}
	remote, err := s.world.Git.CreateRepository(ctx, team, repository, true)
	if err != nil {
		return nil, err
	}
	token, err := s.world.Git.CreateToken(ctx, team, "poolwright", "write:repository")
	if err != nil {
		return nil, err
	}
	r, err := cloneExample(example, filepath.Join(s.world.Dir, "working-copy"), remote.URL, team.Name, token)
	if err != nil {
		return nil, err
	}
	r.team, r.remote = team, remote
	return r, nil
}

// exampleWorld is the cluster that examples/altanova is written for.
func exampleWorld() sandbox.Config { return setups.All()[0].World() }

// binary finds the product: beside this program, where make puts both.
func (d *demo) binary() (string, error) {
	if d.poolwright != "" {
		return filepath.Abs(d.poolwright)
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program: %w", err)
	}
	path := filepath.Join(filepath.Dir(self), "poolwright")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("there is no %s; build it with: make build", path)
	}
	return path, nil
}
