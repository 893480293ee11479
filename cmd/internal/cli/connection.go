package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/connectionerror"
	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/cmd/internal/terminal"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// defaultNamespace is where the controller and its Syncs are unless a flag names
// another.
const defaultNamespace = "poolwright-system"

// connection is how a command reaches a cluster: kubectl's flags.
type connection struct {
	kubeconfig string
	namespace  string
	// overrides are what flags set in place of the kubeconfig: its context, among others.
	overrides clientcmd.ConfigOverrides

	// server is that of the last configuration that was loaded, without a context within a cluster.
	server connectionerror.Server
}

func (c *connection) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "path of the kubeconfig file (default: $KUBECONFIG, the pod's own account, or ~/.kube/config)")
	flags.StringVarP(&c.namespace, "namespace", "n", defaultNamespace, "namespace of the controller and its Syncs")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	// -n is not that of a context, and basic authentication is gone from Kubernetes.
	names.ContextOverrideFlags.Namespace, names.AuthOverrideFlags.Username, names.AuthOverrideFlags.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{}, clientcmd.FlagInfo{}
	names.CurrentContext.Description = "the kubeconfig's context to use"
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	clientcmd.BindOverrideFlags(&c.overrides, own, names)
	own.VisitAll(func(f *pflag.Flag) {
		// Help has those that are in daily use, and poolwright options the others, as kubectl has it.
		f.Hidden = f.Name != clientcmd.FlagContext
		flags.AddFlag(f)
	})
}

// newOptions lists the flags of a connection that the help of commands leaves out.
func newOptions(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the flags of kubectl that every command takes which connects to a cluster",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			(&connection{}).addFlags(flags)
			flags.VisitAll(func(f *pflag.Flag) { f.Hidden = false })
			_, err := fmt.Fprint(streams.Out, flags.FlagUsagesWrapped(terminal.HelpWidthOf(streams.Out)))
			return err
		},
	}
}

// podNamespace is the namespace of pods: that of the flag where it was given, else that of the kubeconfig's context.
func (c *connection) podNamespace(given bool) string {
	if given {
		return c.namespace
	}
	// An error is that of the configuration, which the connection reports.
	namespace, _, _ := c.loader().Namespace()
	return cmp.Or(namespace, metav1.NamespaceDefault)
}

func (c *connection) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &c.overrides)
}

// contexts are the names of a kubeconfig's contexts, sorted.
func contexts(loader clientcmd.ClientConfig) []string {
	raw, err := loader.RawConfig()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(raw.Contexts))
}

// restConfig loads the client configuration. Client-side rate limits are off:
// the API server's priority and fairness does that better.
func (c *connection) restConfig() (*rest.Config, error) {
	loader := c.loader()
	cfg, err := loader.ClientConfig()
	if err != nil {
		// client-go has no type for an empty configuration outside a cluster, only this text.
		if clientcmd.IsEmptyConfig(err) || errors.Is(err, clientcmd.ErrEmptyConfig) || strings.Contains(err.Error(), "no configuration has been provided") {
			return nil, errors.New("no cluster to connect to: set --kubeconfig or KUBECONFIG, or run inside a cluster")
		}
		if known := contexts(loader); c.overrides.CurrentContext != "" && len(known) > 0 && !slices.Contains(known, c.overrides.CurrentContext) {
			return nil, fmt.Errorf("loading the kubeconfig: %w: choose one of %s", err, strings.Join(known, ", "))
		}
		return nil, fmt.Errorf("loading the kubeconfig: %w", err)
	}
	c.server = connectionerror.Server{Address: cfg.Host}
	if raw, err := loader.RawConfig(); err == nil {
		c.server.Context = cmp.Or(c.overrides.CurrentContext, raw.CurrentContext)
	}
	if c.server.Context != "" && c.overrides.ClusterInfo.Server != "" {
		c.server.Context = "" // the server is not the context's
	}
	cfg.QPS, cfg.Burst = -1, 0
	cfg.UserAgent = "poolwright"
	return cfg, nil
}

// client reads and writes our own kinds and the core ones.
func (c *connection) client() (client.WithWatch, error) {
	cfg, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), clientgoscheme.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	cl, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", cfg.Host, err)
	}
	return cl, nil
}

// environment is what the commands of other packages have of this command line.
func (c *connection) environment(streams Streams) get.Environment {
	return get.Environment{Config: c.restConfig, Namespace: func() string { return c.namespace }, Out: streams.Out, Err: streams.Err, Now: time.Now}
}
