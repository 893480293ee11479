package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// hostileMemoryLimit is what the controller may take at its peak while repositories make its children fail.
const hostileMemoryLimit = 150 << 20

// TestABombOnTheFollowedBranchEndsOnlyItsChild pushes what fills any memory to the branch
// that is followed: the Sync is in trouble with the place named, the controller is the
// same process, as small as before, goes on correcting drift, and takes up again.
func TestABombOnTheFollowedBranchEndsOnlyItsChild(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "bombs")
	s.declare("v1", "good")
	s.repo.commit("Begin")
	c := s.start()
	s.follow(every("10m"))
	s.ready()
	id := c.PID()
	var copies strings.Builder
	for i := range 30 {
		fmt.Fprintf(&copies, "    - {op: copy, from: /data, path: /data/a%d}\n", i)
	}
	values := map[string]string{}
	for i := range 12 {
		values[fmt.Sprintf("values-%d.yaml", i)] = fmt.Sprintf("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w%d}\nspec: {x: [%s]}\n",
			i, strings.TrimSuffix(strings.Repeat("{a: 0},", 60_000), ","))
	}
	for n, bomb := range []struct {
		name    string
		files   map[string]string
		message string
	}{
		{"copies of a patch", map[string]string{"kustomization.yaml": "resources: [good.yaml]\npatches:\n- target: {kind: ConfigMap}\n  patch: |\n" + copies.String()}, "config/kustomization.yaml:3"},
		{"values", values, "more than"},
	} {
		for name, content := range bomb.files {
			s.repo.write("config/"+name, content)
		}
		s.repo.commit("Declare a bomb of " + bomb.name)
		s.handled()
		if message := s.waitForNotReady("LimitExceeded"); !strings.Contains(message, bomb.message) {
			t.Errorf("%s: the message does not hold %q: %s", bomb.name, bomb.message, message)
		}
		s.edit("good", `{"data":{"value":"edited"}}`)
		s.holds("good", "v1")
		for name := range bomb.files {
			s.repo.remove("config/" + name)
		}
		s.declare("v1", "good", fmt.Sprint("after-", n))
		s.repo.commit("Take the bomb away")
		if err := isReady(s.handled(), s.repo.revision()); err != nil {
			t.Errorf("after %s: %v", bomb.name, err)
		}
	}
	peak := memory(t, id).peak
	t.Logf("the controller took %d MiB at its peak", peak>>20)
	if peak > hostileMemoryLimit || c.PID() != id {
		t.Errorf("the controller took %d MiB, more than %d, or is process %d no more", peak>>20, hostileMemoryLimit>>20, id)
	}
}
