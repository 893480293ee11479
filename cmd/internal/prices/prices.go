// Package prices reads for a command what AWS offers in a region, and at which prices: from the account, with
// the user's credentials; else from the ConfigMap that a controller publishes. Where neither has it, the
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
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/engine/account"
	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/provision/pricelist/published"
)

// timeout is how long the account may take: its lists have some ten pages each.
const timeout = 45 * time.Second

// Source is where a command reads prices and offerings. The zero value has none: then the shipped catalog counts. It
// may be used by several goroutines.
type Source struct {
	// Account has the account read, with the credentials of the environment.
	Account bool
	// Cluster, where it is not nil, reads the ConfigMap in Namespace.
	Cluster   client.Reader
	Namespace string
	// File is a manifest of that ConfigMap, read where it is not empty.
	File string
	// Progress gets a line about what could not be read.
	Progress io.Writer

	once    sync.Once
	content published.Content

	mu      sync.Mutex
	account *account.Account
}

// Offerings is what AWS offers in a region; nil where it is not known. It is read once.
func (s *Source) Offerings(ctx context.Context, region string) *pricelist.List {
	s.once.Do(func() { s.content = s.read(ctx, region) })
	if list := s.content.Offerings; list != nil && list.Region == region {
		return list
	}
	return nil
}

// Published is what a controller has published, by Offerings.
func (s *Source) Published(ctx context.Context, region string) published.Content {
	s.Offerings(ctx, region)
	return s.content
}

// ClassReservations are the capacity reservations that a controller has published, by the name of the EC2NodeClass.
func (s *Source) ClassReservations(ctx context.Context, region string) map[string][]awsv1.CapacityReservation {
	out := map[string][]awsv1.CapacityReservation{}
	for name, all := range s.Published(ctx, region).CapacityReservations {
		for _, r := range all {
			out[name] = append(out[name], r.CapacityReservation)
		}
	}
	return out
}

// read reads the account, and what it lacks from the ConfigMap.
func (s *Source) read(ctx context.Context, region string) published.Content {
	var out published.Content
	var errs []error
	if s.Account && region != "" {
		list, err := s.readAccount(ctx, region)
		out.Offerings, errs = list, append(errs, err)
	}
	if !out.Offerings.Complete() {
		found, err := s.readPublished(ctx)
		errs = append(errs, err)
		if found.Offerings != nil && found.Offerings.Region != region {
			errs = append(errs, fmt.Errorf("the published price list is that of %s", found.Offerings.Region))
			found = published.Content{} // Classes of other clusters may have the same names.
		}
		out.Offerings, out.CapacityReservations = out.Offerings.Or(found.Offerings), found.CapacityReservations
	}
	if err := errors.Join(errs...); err != nil && !out.Offerings.Complete() && s.Progress != nil {
		fmt.Fprintf(s.Progress, "prices and offerings of %s were not all read, and the shipped catalog's count for the rest: %v\n", region, err)
	}
	return out
}

// readAccount reads what the account has; nil where nothing could be read.
func (s *Source) readAccount(ctx context.Context, region string) (*pricelist.List, error) {
	of, err := s.of(ctx, region)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return of.Offerings(ctx)
}

// of is the account in a region. Credentials that the environment lacks are an error at once: three lists would
// each search for them.
func (s *Source) of(ctx context.Context, region string) (*account.Account, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.account != nil {
		return s.account, nil
	}
	config, err := engine.LoadAWS(ctx, region)
	if err != nil {
		return nil, err
	}
	if _, err := config.Credentials.Retrieve(ctx); err != nil {
		return nil, fmt.Errorf("reading AWS credentials: %w", err)
	}
	s.account = account.New(config, clock.RealClock{})
	return s.account, nil
}

// CapacityReservations are those that the terms of an EC2NodeClass select in the account.
func (s *Source) CapacityReservations(ctx context.Context, region string, terms []awsv1.CapacityReservationSelectorTerm) ([]provision.CapacityReservation, error) {
	of, err := s.of(ctx, region)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return of.CapacityReservations(ctx, terms)
}

// readPublished reads what a controller has published; where there is none, that is no error.
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
	found, err := published.Read(ctx, s.Cluster, s.Namespace)
	if errors.Is(err, published.ErrAbsent) {
		return published.Content{}, nil
	}
	return found, err
}
