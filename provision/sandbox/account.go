package sandbox

import (
	"context"
	"fmt"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// Account is one more AWS account with the environment's cluster in it, so that a part of a
// run can begin with an account that nobody has used.
type Account struct {
	*sandboxaws.Cloud
	// Endpoint is its URL, for AWS_ENDPOINT_URL.
	Endpoint string
	// Config is what it was made of.
	Config sandboxaws.Config

	environment *Environment
	stop        func() error
	cancel      context.CancelFunc
	followed    chan struct{}
}

// AddAccount starts an account like the environment's own but for what change does to its
// configuration. The environment's nodes run its instances, too, so at most one account has
// any at a time. Close ends it.
func (w *Environment) AddAccount(change func(*sandboxaws.Config)) (*Account, error) {
	config := w.config.AWS
	change(&config)
	cloud, err := sandboxaws.New(config)
	if err != nil {
		return nil, fmt.Errorf("adding an AWS account: %w", err)
	}
	address, stop, err := listenAndServe(cloud)
	if err != nil {
		return nil, err
	}
	a := &Account{Cloud: cloud, Endpoint: "http://" + address, Config: config, environment: w, stop: stop, followed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	events := cloud.Watch(ctx)
	go func() {
		defer close(a.followed)
		w.follow(events, cloud)
	}()
	return a, nil
}

// Close ends the account and its machines. Their Nodes are deleted some time later, unless
// somebody else is faster.
func (a *Account) Close() error {
	err := a.stop()
	a.cancel()
	<-a.followed
	for _, i := range a.Instances() {
		a.environment.Nodes.Gone(i.ID)
	}
	return err
}
