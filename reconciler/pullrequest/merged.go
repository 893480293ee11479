package pullrequest

import (
	"context"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// tail is what this process knows of the end of a merged pull request's comment.
type tail struct {
	// at is when it was written last.
	at time.Time
}

// drift is what the newest merged pull request tells of live objects.
type drift struct{}

// follow tells what came of merges.
func (p *pass) follow(context.Context, []forge.PullRequest) {}
