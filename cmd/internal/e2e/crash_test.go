package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// crash is a stage whose controller is killed at every write that it makes, one
// after the other, and started again.
type crash struct {
	*syncFixture
	c *controller
	// model is what Git says: kind/name to value.
	model map[string]string
	// sync is the Sync at work, folder its path.
	sync, folder string
	// after says that kills come after the write, not before it.
	after bool
	// kinds collects what the kills hit.
	kinds map[string]int
}

func newCrash(t *testing.T, name string) *crash {
	t.Helper()
	s := newSyncFixture(t, name)
	if err := hand.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.apps}}); err != nil {
		t.Fatal(err)
	}
	x := &crash{syncFixture: s, model: map[string]string{}, sync: name, folder: "config", kinds: map[string]int{}}
	s.credentials(s.token)
	x.c = s.start()
	s.tookOver("") // and with its preparations behind it
	return x
}

// writeModel makes the model what Git says.
func (x *crash) writeModel(message string) {
	x.Helper()
	x.repo.remove(x.folder)
	for key, value := range x.model {
		kind, name, _ := strings.Cut(key, "/")
		content := map[string]string{
			"ConfigMap":      "data: {value: %q}",
			"Secret":         "stringData: {value: %q}",
			"ServiceAccount": "automountServiceAccountToken: false\nsecrets: [{name: %q}]",
		}[kind]
		x.repo.write(fmt.Sprintf("%s/%s-%s.yaml", x.folder, strings.ToLower(kind), name),
			fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata: {name: %s, namespace: %s}\n"+content+"\n", kind, name, x.apps, value))
	}
	x.repo.commit(message)
}

// found is a live object.
type found struct{ Value, UID string }

// reality is what the declared namespace holds of the kinds of the model.
func (x *crash) reality() map[string]found {
	x.Helper()
	var maps corev1.ConfigMapList
	var secrets corev1.SecretList
	var accounts corev1.ServiceAccountList
	for _, list := range []client.ObjectList{&maps, &secrets, &accounts} {
		if err := hand.List(x.Context(), list, client.InNamespace(x.apps)); err != nil {
			x.Fatal(err)
		}
	}
	out := map[string]found{}
	for _, o := range maps.Items {
		if o.Name != "kube-root-ca.crt" {
			out["ConfigMap/"+o.Name] = found{o.Data["value"], string(o.UID)}
		}
	}
	for _, o := range secrets.Items {
		out["Secret/"+o.Name] = found{string(o.Data["value"]), string(o.UID)}
	}
	for _, o := range accounts.Items {
		if o.Name != "default" && len(o.Secrets) == 1 {
			out["ServiceAccount/"+o.Name] = found{o.Secrets[0].Name, string(o.UID)}
		}
	}
	return out
}

// memory is what the Sync's inventory names: kind/name to incarnation.
func (x *crash) memory() map[string]string {
	x.Helper()
	var shards corev1.ConfigMapList
	if err := hand.List(x.Context(), &shards, client.InNamespace(x.system), client.MatchingLabels{"poolwright.dev/inventory": x.sync}); err != nil {
		x.Fatal(err)
	}
	out := map[string]string{}
	for _, shard := range shards.Items {
		var doc struct {
			Records []struct{ Kind, Name, UID string }
		}
		if err := json.Unmarshal([]byte(shard.Data["records.json"]), &doc); err != nil {
			x.Fatal(err)
		}
		for _, r := range doc.Records {
			out[r.Kind+"/"+r.Name] = r.UID
		}
	}
	return out
}

// consistent waits until the newest commit is applied, and checks that cluster,
// Git and inventory say the same, and that nothing more is written.
func (x *crash) consistent() {
	x.Helper()
	x.readyAs(x.sync)
	x.handledAs(x.sync) // ready may be what the dead one has written
	x.c.api.take()
	x.handledAs(x.sync)
	if writes := beyond(x.c.api.take(), routine(x.sync)); len(writes) > 0 {
		x.Errorf("a settled Sync writes: %v", writes)
	}
	values, uids := map[string]string{}, map[string]string{}
	for key, o := range x.reality() {
		values[key], uids[key] = o.Value, o.UID
	}
	if diff := cmp.Diff(x.model, values); diff != "" {
		x.Errorf("the cluster is not as Git says (-git +cluster):\n%s", diff)
	}
	if diff := cmp.Diff(uids, x.memory()); diff != "" {
		x.Errorf("the inventory is not as the cluster (-cluster +inventory):\n%s", diff)
	}
}

// bothWays has a suite run with kills before the API server sees a write, and
// with kills right after it has taken it.
func bothWays(t *testing.T, name string, scenario func(*crash)) {
	for _, after := range []bool{false, true} {
		way := map[bool]string{false: "before", true: "after"}[after]
		t.Run("killed "+way+" each write", func(t *testing.T) {
			t.Parallel()
			x := newCrash(t, name+"-"+way)
			x.after = after
			scenario(x)
		})
	}
}

// everywhere runs a step with a kill at its first write, then at its second,
// and so on until it ends without a kill. The step arms the trap, has something done,
// waits, and may change Git before the next life. Then the environment must be
// consistent, and the next step is prepared, if that is needed. The kills must
// have hit every kind of write in want: the number of writes before one of them
// varies (inventories may be written once more or less), so a kind that the
// counted kills have missed is run by its name.
func (x *crash) everywhere(scenario func(x *crash, arm, wait func(), n int), prepare func(*crash), want ...string) {
	x.Helper()
	run := func(name string, n int, at *trap) (survived bool) {
		ok := x.T.Run(name, func(t *testing.T) {
			x := x.in(t)
			at.after, at.kill = x.after, func() {
				if err := x.c.Kill(); err != nil {
					t.Error(err)
				}
			}
			scenario(x, func() { x.c.api.set(at) }, func() { survived = !x.killed(at) }, n)
			x.again()
			x.consistent()
			if prepare != nil {
				prepare(x)
			}
		})
		if !ok {
			x.FailNow()
		}
		return survived
	}
	n := 1
	for !run(fmt.Sprintf("write %d", n), n, &trap{k: n}) {
		n++
	}
	x.Logf("killed at: %v", x.kinds)
	for _, kind := range want {
		if x.kinds[kind] > 0 {
			continue
		}
		n++
		if run("first write of "+kind, n, &trap{kind: kind}) {
			// The step before may have left nothing to delete.
			n++
			if !run("first write of "+kind+" again", n, &trap{kind: kind}) {
				continue
			}
			x.Errorf("no kill hit: %s; only %v", kind, slices.Sorted(maps.Keys(x.kinds)))
		}
	}
}

func (x *crash) in(t *testing.T) *crash {
	part := *x
	part.syncFixture = x.syncFixture.in(t)
	return &part
}

// killed waits until the trap springs; it returns false when the run ends before.
func (x *crash) killed(t *trap) bool {
	x.Helper()
	x.now = nil // it may end
	x.eventually("the controller is killed or done", func() error {
		select {
		case <-t.done:
			return nil
		default:
		}
		sync, err := x.read(x.sync)
		if err != nil {
			return err
		}
		return isReady(sync, x.repo.revision())
	})
	hit := x.c.api.disarm()
	if hit == "" {
		x.now = x.c
		return false
	}
	x.kinds[kindOf(hit)]++
	return true
}

// kindOf is what kind of write was hit.
func kindOf(write string) string {
	verb, path, _ := strings.Cut(write, " ")
	switch {
	case strings.Contains(path, "-inventory-") || strings.HasSuffix(path, "/configmaps"):
		return "inventory"
	case strings.HasSuffix(path, "/status"):
		return "status"
	case strings.Contains(path, "/syncs/"):
		return "finalizer"
	}
	return "object " + verb
}

// again starts the controller's next life.
func (x *crash) again() {
	x.Helper()
	select {
	case <-x.c.Done():
		x.deleteLease()
		x.run(x.c)
	default:
		x.handledAs(x.sync)
	}
}

// seven are the objects of one Sync, in two waves.
func seven(value string) map[string]string {
	return map[string]string{
		"ConfigMap/a": value, "ConfigMap/b": value, "ConfigMap/c": value,
		"Secret/a": value, "Secret/b": value,
		"ServiceAccount/a": value, "ServiceAccount/b": value,
	}
}

func TestAFirstApplyThatIsKilledAnywhereIsFinished(t *testing.T) {
	t.Parallel()
	bothWays(t, "kill-apply", firstApply)
}

func firstApply(x *crash) {
	x.everywhere(func(x *crash, arm, wait func(), n int) {
		x.sync, x.folder = fmt.Sprintf("%s-%d", x.name, n), fmt.Sprintf("config-%d", n)
		x.model = seven("v1")
		x.writeModel("Begin")
		arm()
		x.syncNamed(x.sync, every("10m"), func(sync *v1alpha1.Sync) {
			sync.Spec.Path, sync.Spec.DeletionPolicy = x.folder, v1alpha1.DeletionPolicyDelete
		})
		wait()
		// Meanwhile Git wants one object no more, and another otherwise.
		keys := slices.Sorted(maps.Keys(x.model))
		delete(x.model, keys[n%len(keys)])
		x.model[keys[(n+1)%len(keys)]] = "v2"
		x.writeModel("Change one object and remove another")
	}, func(x *crash) {
		if err := hand.Delete(x.Context(), &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: x.sync, Namespace: x.system}}); err != nil {
			x.Fatal(err)
		}
		x.eventually("the Sync is gone", func() error {
			_, err := x.read(x.sync)
			return absent(err)
		})
		if left := x.reality(); len(left) > 0 {
			x.Errorf("left of a deleted Sync: %v", left)
		}
	}, "finalizer", "inventory", "object PATCH", "status")
}

func TestAnUpdateThatIsKilledAnywhereIsFinished(t *testing.T) {
	t.Parallel()
	bothWays(t, "kill-update", update)
}

func update(x *crash) {
	x.model = seven("v0")
	x.model["ConfigMap/even"] = "new"
	x.writeModel("Begin")
	x.syncNamed(x.sync, every("10m"))
	x.consistent()
	x.everywhere(func(x *crash, arm, wait func(), n int) {
		arm()
		for _, key := range []string{"ConfigMap/a", "Secret/a", "ServiceAccount/a"} {
			x.model[key] = fmt.Sprintf("v%d", n)
		}
		coming, leaving := "ConfigMap/even", "ConfigMap/odd"
		if n%2 == 1 {
			coming, leaving = leaving, coming
		}
		delete(x.model, leaving)
		x.model[coming] = "new"
		x.writeModel("Change three objects, add one, remove one")
		x.request()
		wait()
		if n%8 == 3 {
			// Meanwhile Git wants the new one no more: it may have been made.
			// The next run has nothing to remove and so fewer writes, which must not be
			// those around the deletion and the status.
			delete(x.model, coming)
			x.writeModel("Remove the new one")
		}
	}, nil, "inventory", "object PATCH", "object DELETE", "status")
}

func TestAPruneThatIsKilledAnywhereIsFinished(t *testing.T) {
	t.Parallel()
	bothWays(t, "kill-prune", prune)
}

func prune(x *crash) {
	x.model = seven("v1")
	x.writeModel("Begin")
	x.syncNamed(x.sync, every("10m"))
	x.everywhere(func(x *crash, arm, wait func(), n int) {
		maps.Copy(x.model, seven("v1"))
		x.writeModel("Have all of them")
		x.handledAs(x.sync)
		x.readyAs(x.sync)
		arm()
		for _, key := range []string{"ConfigMap/a", "Secret/a", "ServiceAccount/a"} {
			delete(x.model, key)
		}
		x.writeModel("Remove three")
		x.request()
		wait()
		if n%2 == 0 {
			// Meanwhile Git wants one of them back, and another is not missed.
			x.model["Secret/a"] = "v2"
			x.writeModel("Bring one back")
		}
	}, nil, "inventory", "object DELETE", "status")
}

// request asks for a run now without waiting for it.
func (x *crash) request() {
	x.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, fluxmeta.ReconcileRequestAnnotation, x.repo.committed)
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: x.sync, Namespace: x.system}}
	if err := hand.Patch(x.Context(), sync, mergePatch(patch)); err != nil {
		x.Fatal(err)
	}
}

func TestALostInventoryIsMadeAnew(t *testing.T) {
	t.Parallel()
	x := newCrash(t, "amnesia")
	x.model = seven("v1")
	x.writeModel("Begin")
	x.syncNamed(x.sync, every("10m"))
	x.consistent()
	before := x.reality()
	// Somebody's copy of an object carries our label, and is not ours.
	copied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "copy-" + x.name, Labels: map[string]string{v1alpha1.SyncLabel: x.sync}}}
	if err := hand.Create(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	lose := func() {
		t.Helper()
		err := hand.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(x.system), client.HasLabels{"poolwright.dev/inventory"})
		if err != nil {
			t.Fatal(err)
		}
	}
	lose() // while it runs
	x.model["ConfigMap/a"] = "v2"
	x.writeModel("Change a")
	x.handledAs(x.sync)
	x.consistent()
	if err := x.c.Kill(); err != nil {
		t.Fatal(err)
	}
	lose() // while it does not
	x.model["ConfigMap/a"] = "v3"
	x.writeModel("Change a again")
	x.again()
	x.handledAs(x.sync)
	x.consistent()
	for key, o := range x.reality() {
		if before[key].UID != o.UID {
			t.Errorf("%s was made anew", key)
		}
	}
	if err := hand.Get(t.Context(), client.ObjectKeyFromObject(copied), copied); err != nil {
		t.Errorf("a foreign object with our label is gone: %v", err)
	}
}
