package limits

import (
	"cmp"
	"slices"

	"github.com/poolwright/poolwright/reconciler/report/forge"
)

const (
	// MaxPlanned is how many open pull requests of a Sync are planned.
	MaxPlanned = 200
	// MaxPlannedPerAuthor is how many of those may be of one author.
	MaxPlannedPerAuthor = 100
)

// Admit divides open pull requests, in the order of their numbers, into those that are
// planned and the limit, [MaxPlanned] or [MaxPlannedPerAuthor], that keeps each other one
// from it, by number. Authors take turns with their oldest ones first, so that none takes
// the place of all others.
func Admit(open []forge.PullRequest) (planned []forge.PullRequest, refused map[int]int) {
	turn, of := map[int]int{}, map[string]int{}
	refused = map[int]int{}
	for _, pr := range open {
		turn[pr.Number] = of[pr.Author]
		if of[pr.Author]++; of[pr.Author] > MaxPlannedPerAuthor {
			refused[pr.Number] = MaxPlannedPerAuthor
			continue
		}
		planned = append(planned, pr)
	}
	slices.SortStableFunc(planned, func(a, b forge.PullRequest) int { return cmp.Compare(turn[a.Number], turn[b.Number]) })
	for _, pr := range planned[min(len(planned), MaxPlanned):] {
		refused[pr.Number] = MaxPlanned
	}
	return planned[:min(len(planned), MaxPlanned)], refused
}
