package prices

import (
	"context"
	"errors"
	"fmt"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/engine/account"
	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// errAccount is returned where the credentials are those of another account than the Cluster's: that one may have
// other zones, and other capacity reservations.
var errAccount = errors.New("the AWS credentials are of another account than the Cluster")

// place is the region of an account, which is empty where it is not known.
type place struct{ region, account string }

// placeOf is where a Cluster is. An account that holds a variable is not known.
func placeOf(cluster v1alpha1.ClusterSpec) place {
	out := place{region: cluster.Region, account: cluster.Account}
	if strings.Contains(out.account, "${") {
		out.account = ""
	}
	return out
}

// opened is an account, or why there is none.
type opened struct {
	account *account.Account
	err     error
}

// connect is the account of a place, which is searched for once, whether it is found or not.
func (s *Source) connect(ctx context.Context, of place) (*account.Account, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, known := s.accounts[of]
	if !known {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		found.account, found.err = open(ctx, of)
		if s.accounts == nil {
			s.accounts = map[place]opened{}
		}
		s.accounts[of] = found
	}
	return found.account, found.err
}

// open is the account of a place. Credentials that the environment lacks are an error at once: three lists would
// each search for them.
func open(ctx context.Context, of place) (*account.Account, error) {
	config, err := engine.LoadAWS(ctx, of.region)
	if err != nil {
		return nil, err
	}
	if _, err := config.Credentials.Retrieve(ctx); err != nil {
		return nil, fmt.Errorf("reading AWS credentials: %w", err)
	}
	if of.account != "" {
		have, err := account.ID(ctx, config)
		if err != nil {
			return nil, err
		}
		if have != of.account {
			return nil, fmt.Errorf("%w: they are of %q, and its spec.account is %q", errAccount, have, of.account)
		}
	}
	return account.New(config, clock.RealClock{}), nil
}

// readAccount reads what the account has; nil where nothing could be read.
func (s *Source) readAccount(ctx context.Context, of place) (*pricelist.List, error) {
	found, err := s.connect(ctx, of)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return found.Offerings(ctx)
}

// CapacityReservations are those that the terms of an EC2NodeClass select in the account of a Cluster.
func (s *Source) CapacityReservations(ctx context.Context, cluster v1alpha1.ClusterSpec, terms []awsv1.CapacityReservationSelectorTerm) ([]provision.CapacityReservation, error) {
	found, err := s.connect(ctx, placeOf(cluster))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return found.CapacityReservations(ctx, terms)
}
