package api

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Delays are the times that AWS takes.
type Delays struct {
	// Response is the way of every response over the network. With none, a client
	// on loopback can get a response before it is done with its own request;
	// the AWS SDK then breaks its connection now and then, and retries.
	Response  time.Duration
	Fleet     time.Duration // CreateFleet, before the instances exist
	Running   time.Duration // from pending to running
	Shutdown  time.Duration // from shutting-down to terminated
	Interrupt time.Duration // from the spot interruption warning to the end
	Removal   time.Duration // how long a terminated instance stays visible
	Visible   time.Duration // from the creation of a role, instance profile or queue until anybody else finds it
	Update    time.Duration // an EKS update, from its request to its end
}

// Clock has the time and calls back. Time goes by only through it, so a test
// may hold and turn it.
type Clock interface {
	Now() time.Time
	// AfterFunc has f run once d has passed, never within AfterFunc itself:
	// its callers hold locks that f takes. stop prevents that if f has not
	// begun.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// Account is what the services of one account in one region share: its names,
// its clock and the lock that all of its memory is behind.
type Account struct {
	sync.Mutex
	ID      string // twelve digits
	Region  string // for example "us-east-1"
	Cluster string // name of the only EKS cluster
	Clock   Clock
	Delays  Delays
	made    int // identifiers so far
}

// Partition is the first part of an ARN after arn.
func (a *Account) Partition() string {
	switch {
	case strings.HasPrefix(a.Region, "cn-"):
		return "aws-cn"
	case strings.HasPrefix(a.Region, "us-gov-"):
		return "aws-us-gov"
	}
	return "aws"
}

// ARN names a resource of the account in its region.
func (a *Account) ARN(service, resource string) string {
	return fmt.Sprintf("arn:%s:%s:%s:%s:%s", a.Partition(), service, a.Region, a.ID, resource)
}

// PublicARN names a resource of the region that belongs to no account, such as
// AWS's own parameters, images and snapshots.
func (a *Account) PublicARN(service, resource string) string {
	return fmt.Sprintf("arn:%s:%s:%s::%s", a.Partition(), service, a.Region, resource)
}

// GlobalARN names a resource of the account that belongs to no region.
func (a *Account) GlobalARN(service, resource string) string {
	return fmt.Sprintf("arn:%s:%s::%s:%s", a.Partition(), service, a.ID, resource)
}

// Caller is the ARN of whoever signs with an access key. His session is named
// after it, so that two callers differ.
func (a *Account) Caller(accessKeyID string) string {
	return a.GlobalARN("sts", "assumed-role/sandbox/"+strings.ToLower(accessKeyID))
}

// NewID makes the next identifier with that prefix. They have the form of AWS's, and
// the same history gives the same ones.
func (a *Account) NewID(prefix string) string {
	sum := a.next(prefix)
	return prefix + "-0" + hex.EncodeToString(sum[:8])
}

// NewEntityID makes the next unique id of an IAM entity: two of one name have two.
func (a *Account) NewEntityID(prefix string) string {
	sum := a.next(prefix)
	return prefix + base32.StdEncoding.EncodeToString(sum[:])[:17]
}

// NewUUID makes the next identifier of that form.
func (a *Account) NewUUID() string {
	sum := a.next("uuid")
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-8" + h[17:20] + "-" + h[20:]
}

func (a *Account) next(prefix string) [sha256.Size]byte {
	a.made++
	return sha256.Sum256(fmt.Appendf(nil, "%s/%d", prefix, a.made))
}

// Made counts the identifiers that were made.
func (a *Account) Made() int { return a.made }

// AfterFunc has f run, with the lock held, once d has passed on the account's
// clock.
func (a *Account) AfterFunc(d time.Duration, f func()) {
	a.Clock.AfterFunc(d, func() {
		a.Lock()
		defer a.Unlock()
		f()
	})
}
