// Package prices reads for a command what AWS offers in a region, and at which prices: from the account, with
// the user's credentials; else from the ConfigMaps that a controller publishes. Where neither has it, the
// catalog that is shipped counts, which every output states.
//
// It writes nothing. Start reading at [Source].
package prices

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/provision/pricelist/published"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// timeout is how long the credentials may take, and as long the account: its lists have some ten pages each.
const timeout = 45 * time.Second

// Source is where a command reads prices and offerings. The zero value has none: then the shipped catalog counts. It
// may be used by several goroutines, for one Cluster.
type Source struct {
	// Account has the account read, with the credentials of the environment.
	Account bool
	// Cluster, where it is not nil, reads the ConfigMaps in Namespace that a controller publishes.
	Cluster   client.Reader
	Namespace string
	// File is a manifest of these ConfigMaps, read where it is not empty.
	File string
	// Required makes it an error, which Err returns, that nothing can be read: the user named the source.
	Required bool
	// Progress gets a line about what could not be read; nil drops it.
	Progress io.Writer

	once    sync.Once
	content published.Content

	mu       sync.Mutex
	err      error
	accounts map[place]opened

	reservations sync.Once
}

// Offerings is what AWS offers in the account and region of a Cluster; nil where it is not known. It is read once.
func (s *Source) Offerings(ctx context.Context, cluster v1alpha1.ClusterSpec) *pricelist.List {
	s.once.Do(func() {
		content, err := s.read(ctx, placeOf(cluster))
		s.mu.Lock()
		defer s.mu.Unlock()
		s.content, s.err = content, err
	})
	if list := s.content.Offerings; list != nil && list.Region == cluster.Region {
		return list
	}
	return nil
}

// Published is what a controller has published, by Offerings.
func (s *Source) Published(ctx context.Context, cluster v1alpha1.ClusterSpec) published.Content {
	s.Offerings(ctx, cluster)
	return s.content
}

// Err is why a Source that is required has nothing; nil before it is read, and of a nil Source.
func (s *Source) Err() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// ClassReservations are the capacity reservations that a controller has published, by the name of the EC2NodeClass.
func (s *Source) ClassReservations(ctx context.Context, cluster v1alpha1.ClusterSpec) map[string][]awsv1.CapacityReservation {
	out := map[string][]awsv1.CapacityReservation{}
	for name, all := range s.Published(ctx, cluster).CapacityReservations {
		for _, r := range all {
			out[name] = append(out[name], r.CapacityReservation)
		}
	}
	return out
}

// WithoutReservations reports, the first time, that capacity reservations could not be read.
func (s *Source) WithoutReservations(err error) {
	s.reservations.Do(func() { s.report("capacity reservations were not read, so that their ends are not known: %v\n", err) })
}

func (s *Source) report(format string, args ...any) {
	if s.Progress != nil {
		fmt.Fprintf(s.Progress, format, args...)
	}
}

// read reads the account, and what it lacks from the ConfigMap. It is an error where nothing is read of a source
// that is required.
func (s *Source) read(ctx context.Context, of place) (published.Content, error) {
	if of.region == "" {
		s.report("prices and offerings were not read, and the shipped catalog's count: the region is not known\n")
		return published.Content{}, nil
	}
	var out published.Content
	var errs []error
	if s.Account {
		list, err := s.readAccount(ctx, of)
		out.Offerings, errs = list, append(errs, err)
	}
	if !out.Offerings.Complete() {
		found, err := s.readPublished(ctx)
		errs = append(errs, err)
		if found.Offerings != nil && found.Offerings.Region != of.region {
			errs = append(errs, fmt.Errorf("the published price list is that of %q", found.Offerings.Region))
			found = published.Content{} // Classes of other clusters may have the same names.
		}
		out.Offerings, out.CapacityReservations = out.Offerings.Or(found.Offerings), found.CapacityReservations
	}
	err := errors.Join(errs...)
	switch missing := out.Offerings.Missing(); {
	case len(missing) == 3 && s.Required && err != nil:
		return published.Content{}, fmt.Errorf("reading the prices and offerings of %s: %w", of.region, err)
	case len(missing) > 0 && err != nil:
		s.report("%s of %s were not read, and the shipped catalog's count: %v\n", strings.Join(missing, ", "), of.region, err)
	case len(missing) > 0:
		s.report("%s of %s are not in what was read, and the shipped catalog's count\n", strings.Join(missing, ", "), of.region)
	case errors.Is(err, errAccount):
		s.report("prices and offerings of %s are the published ones: %v\n", of.region, err)
	}
	return out, nil
}

// readPublished reads what a controller has published; where there is no place for it, that is no error.
func (s *Source) readPublished(ctx context.Context) (published.Content, error) {
	if s.File != "" {
		file, err := os.Open(s.File)
		if err != nil {
			return published.Content{}, fmt.Errorf("reading the price list: %w", err)
		}
		defer file.Close()
		return published.ReadManifest(file)
	}
	if s.Cluster == nil {
		return published.Content{}, nil
	}
	out, err := published.Read(ctx, s.Cluster, s.Namespace)
	if err != nil {
		return published.Content{}, err
	}
	reserved, err := published.ReadReservations(ctx, s.Cluster, s.Namespace)
	if err != nil {
		s.WithoutReservations(err)
	}
	out.CapacityReservations = reserved
	return out, nil
}
