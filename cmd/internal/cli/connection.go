package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// defaultNamespace is where the controller and its Syncs are unless a flag names
// another.
const defaultNamespace = "poolwright-system"

// connection is how a command reaches a cluster: kubectl's flags.
type connection struct {
	kubeconfig string
	context    string
	namespace  string

	// server and contextName are those of the last configuration that was loaded; contextName is
	// empty within a cluster.
	server, contextName string
}

func (c *connection) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "path of the kubeconfig file (default: $KUBECONFIG, the pod's own account, or ~/.kube/config)")
	flags.StringVar(&c.context, "context", "", "the kubeconfig's context to use")
	flags.StringVarP(&c.namespace, "namespace", "n", defaultNamespace, "namespace of the controller and its Syncs")
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
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.context})
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
		if clientcmd.IsEmptyConfig(err) || errors.Is(err, clientcmd.ErrEmptyConfig) || strings.Contains(err.Error(), "no configuration has been provided") {
			return nil, errors.New("no cluster to connect to: set --kubeconfig or KUBECONFIG, or run inside a cluster")
		}
		if known := contexts(loader); c.context != "" && len(known) > 0 && !slices.Contains(known, c.context) {
			return nil, fmt.Errorf("loading the kubeconfig: %w: choose one of %s", err, strings.Join(known, ", "))
		}
		return nil, fmt.Errorf("loading the kubeconfig: %w", err)
	}
	c.server, c.contextName = cfg.Host, ""
	if raw, err := loader.RawConfig(); err == nil {
		c.contextName = cmp.Or(c.context, raw.CurrentContext)
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
