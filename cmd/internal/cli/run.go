package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/cmd/internal/operator"
)

func newRun(conn *connection, streams Streams) *cobra.Command {
	var (
		cfg   operator.Config
		cache = resource.NewQuantity(operator.DefaultCacheSizeLimit, resource.BinarySI)
		level string
	)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the controller: Syncs, drift correction, pull requests and the embedded Karpenter",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.PublishReservations && !cfg.PublishPrices {
				return errors.New("--publish-reservations has no effect with --publish-prices=false: reservations are read only beside the prices, which have their region: leave it out, or publish prices")
			}
			logger, err := newLogger(level, streams)
			if err != nil {
				return err
			}
			if cfg.REST, err = conn.restConfig(); err != nil {
				return err
			}
			cfg.Namespace, cfg.Logger, cfg.CacheSizeLimit = conn.namespace, logger, cache.Value()
			// As Karpenter reads it: it comes from a Karpenter that ran before.
			cfg.CABundle = os.Getenv("CLUSTER_CA_BUNDLE")
			err = operator.Run(cmd.Context(), cfg)
			if errors.Is(err, operator.ErrRestart) {
				return restart()
			}
			return err
		},
	}
	conn.addFlags(cmd.Flags())
	conn.completeConnection(cmd)
	cmd.Flags().StringVar(&cfg.MetricsAddress, "metrics-addr", ":8080", `address of the Prometheus metrics; "0" serves none`)
	cmd.Flags().StringVar(&cfg.HealthAddress, "health-addr", ":8081", `address of /healthz and /readyz; "0" serves none`)
	cmd.Flags().StringVar(&cfg.ReceiverAddress, "receiver-addr", "0", `address where forges send webhooks, to /hook/<Sync>; "0" serves none`)
	cmd.Flags().StringVar(&cfg.EventsAddress, "events-addr", "", "address of Flux's notification-controller, to which the events of Syncs are sent; empty sends none")
	cmd.Flags().BoolVar(&cfg.NoCrossNamespaceRefs, "no-cross-namespace-refs", false, "let Syncs name only sources of Flux in their own namespace, as Flux's flag")
	cmd.Flags().StringVar(&cfg.WatchLabelSelector, "watch-label-selector", "", "reconcile only Syncs with such labels, such as stage=canary, as Flux's flag; empty reconciles all")
	cmd.Flags().BoolVar(&cfg.History, "history", true, "record nodes, applies, drift and pull requests for poolwright history and events")
	cmd.Flags().BoolVar(&cfg.PublishPrices, "publish-prices", true, "publish the prices and offerings that the engine reads in the ConfigMap poolwright-price-list, for commands without AWS credentials")
	cmd.Flags().BoolVar(&cfg.PublishReservations, "publish-reservations", false, "publish the capacity reservations of EC2NodeClasses in the ConfigMap poolwright-capacity-reservations, for the same commands")
	cmd.Flags().StringVar(&cfg.CacheDir, "cache-dir", filepath.Join(os.TempDir(), "poolwright"), "folder for the caches of Git repositories, and for artifacts of Flux")
	cmd.Flags().Var(quantity{cache}, "cache-size-limit", "disk space for the caches of all Git repositories, such as 1638Mi; keep it below four fifths of the volume")
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info or error")
	return cmd
}

// quantity is a flag in the notation of Kubernetes, more than nothing.
type quantity struct{ *resource.Quantity }

// Set implements pflag.Value.
func (q quantity) Set(s string) error {
	v, err := resource.ParseQuantity(s)
	if err != nil {
		return err
	}
	if v.Sign() <= 0 {
		return errors.New("must be more than nothing")
	}
	*q.Quantity = v
	return nil
}

// Type implements pflag.Value.
func (quantity) Type() string { return "quantity" }

// newLogger writes JSON lines, one event each, to the error stream.
func newLogger(level string, streams Streams) (logr.Logger, error) {
	var at zapcore.Level
	switch strings.ToLower(level) {
	case "debug":
		at = zapcore.DebugLevel
	case "info":
		at = zapcore.InfoLevel
	case "error":
		at = zapcore.ErrorLevel
	default:
		return logr.Discard(), fmt.Errorf("--log-level %q is not one of debug, info, error", level)
	}
	encoder := zap.NewProductionEncoderConfig()
	encoder.EncodeTime = zapcore.ISO8601TimeEncoder
	core := zapcore.NewCore(zapcore.NewJSONEncoder(encoder), zapcore.Lock(zapcore.AddSync(streams.Err)), at)
	return zapr.NewLogger(zap.New(core)), nil
}

// restart executes this binary again in place: the lease is released and
// everything of the old life is gone with its memory. Exiting instead would
// meet the kubelet's crash back-off.
func restart() error {
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this binary to restart it: %w", err)
	}
	return fmt.Errorf("restarting %s: %w", path, syscall.Exec(path, os.Args, os.Environ()))
}

// newChild is the command that poolwright starts itself with, to render in a
// process that holds nothing; see package child.
func newChild(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:    "child VERB MEMORY SECONDS",
		Short:  "Render or forecast for the poolwright that started this process, under limits",
		Hidden: true,
		Args:   cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			// Nothing of the input is read before the limits hold.
			if err := child.Confine(args[1], args[2]); err != nil {
				return err
			}
			return child.Serve(cmd.Context(), args[0], streams.In, streams.Out)
		},
	}
}
