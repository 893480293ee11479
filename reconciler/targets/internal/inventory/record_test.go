package inventory

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
)

func records(n int) []Record {
	out := make([]Record, n)
	for i := range out {
		out[i] = Record{
			Key:     state.Key{Target: "kubernetes", Group: "apps", Kind: "Deployment", Namespace: fmt.Sprintf("namespace-%d", i%7), Name: fmt.Sprintf("object-%d", i)},
			Version: "v1", Desired: state.Hash(i), FromLabel: i%5 == 0,
			Scope: "somewhere", Wave: i % 4, Policy: "Delete", Reserved: i%2 == 0,
			Allowed:     []*loss.Approval{nil, {}, {Losses: loss.Counts{"Node": i, "Pod": 2}, Digest: state.Hash(i), Number: 1 + i, Quoted: loss.Counts{"Node": i}}}[i%3],
			Fingerprint: fields.Fingerprint{UID: fmt.Sprintf("00000000-0000-0000-0000-%012d", i), Generation: int64(i), Fields: state.Hash(i), Meta: state.Hash(i), Values: state.Hash(i)},
		}
	}
	return out
}

func decodeAll(t testing.TB, shards []string) []Record {
	t.Helper()
	var out []Record
	for _, s := range shards {
		part, of, err := Decode("kubernetes", s)
		if err != nil {
			t.Fatal(err)
		}
		if of != len(shards) {
			t.Errorf("a shard says it is one of %d, and there are %d", of, len(shards))
		}
		out = append(out, part...)
	}
	slices.SortFunc(out, func(a, b Record) int { return a.Key.Compare(b.Key) })
	return out
}

func TestShardsHoldEverythingAndStayUnderEtcdsLimit(t *testing.T) {
	for _, n := range []int{0, 1, 2000, 20000} {
		t.Run(fmt.Sprintf("%d objects", n), func(t *testing.T) {
			in := records(n)
			shards := Encode(in, 0)
			for i, s := range shards {
				if len(s) > limit {
					t.Errorf("shard %d has %d bytes", i, len(s))
				}
			}
			slices.SortFunc(in, func(a, b Record) int { return a.Key.Compare(b.Key) })
			if got := decodeAll(t, shards); !slices.EqualFunc(in, got, func(a, b Record) bool { return cmp.Equal(a, b) }) {
				t.Errorf("%d records came back, or others", len(got))
			}
		})
	}
}

func TestOneObjectMoreChangesOneShard(t *testing.T) {
	in := records(6000)
	before := Encode(in[:5999], 0)
	after := Encode(in, len(before))
	changed := 0
	for i := range before {
		if before[i] != after[i] {
			changed++
		}
	}
	if len(before) < 4 || len(after) != len(before) || changed != 1 {
		t.Errorf("%d of %d shards changed, %d before", changed, len(after), len(before))
	}
}

func TestSplittingMovesRecordsUpOnly(t *testing.T) {
	for _, r := range records(500) {
		for n := uint64(1); n < 64; n *= 2 {
			if small, big := sum(r.Key)%n, sum(r.Key)%(2*n); big != small && big != small+n {
				t.Fatalf("%s goes from shard %d of %d to %d of %d", r.Key, small, n, big, 2*n)
			}
		}
	}
}

func TestARecordIsStoredInTheFormOfEarlierReleases(t *testing.T) {
	rec := Record{
		Key: state.Key{Target: "aws", Group: "eks", Kind: "AccessEntry", Namespace: "n", Name: "nodes"}, Version: "v1",
		Fingerprint: fields.Fingerprint{UID: "u", ResourceVersion: "7", Generation: 2, Fields: "f", Meta: "m", Values: "v", Spec: "s"},
		Desired:     "d", FromLabel: true, Scope: "eu-west-1", Wave: 3, Policy: "Delete", Reserved: true,
		Allowed: &loss.Approval{Losses: loss.Counts{"Node": 1}, Digest: "x", Number: 4, Quoted: loss.Counts{"Node": 2}},
	}
	const want = `{"format":1,"shards":1,"records":[{"group":"eks","version":"v1","kind":"AccessEntry","namespace":"n","name":"nodes",` +
		`"uid":"u","generation":2,"fields":"f","meta":"m","values":"v","spec":"s","desired":"d","rebuilt":true,"scope":"eu-west-1",` +
		`"wave":3,"policy":"Delete","reserved":true,"allowed":{"losses":{"Node":1},"digest":"x","number":4,"quoted":{"Node":2}}}]}`
	if d := cmp.Diff(want, Encode([]Record{rec}, 0)[0]); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestDecodeRefusesWhatItDoesNotSupport(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "unexpected end"},
		{"half a document", `{"format":1,"records":[{"kind"`, "unexpected end"},
		{"an object", `{}`, "format 0"},
		{"a later format", `{"format":2}`, "format 2"},
		{"more shards than there can be", `{"format":1,"shards":5000}`, "5000 shards"},
		{"fewer shards than none", `{"format":1,"shards":-1}`, "-1 shards"},
		{"a record without a name", `{"format":1,"records":[{"kind":"X","version":"v1"}]}`, "record 0"},
	} {
		t.Run(tt.name+" is an error", func(t *testing.T) {
			if _, _, err := Decode("kubernetes", tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// Earlier releases marked deletions as begun without saying what was allowed, those that
// they skipped as well. Such a mark allows nothing.
func TestAnOldMarkAllowsNothing(t *testing.T) {
	for text, want := range map[string]*loss.Approval{
		`"leaving":true`:                          nil,
		`"leaving":true,"allowed":null`:           nil,
		`"allowed":{}`:                            {},
		`"allowed":{"confirmed":true}`:            {}, // by whatever token
		`"allowed":{"losses":{"Node":3,"Pod":7}}`: {Losses: loss.Counts{"Node": 3, "Pod": 7}},
	} {
		got, _, err := Decode("kubernetes", `{"format":1,"shards":1,"records":[{"version":"v1","kind":"NodePool","name":"gpu","uid":"u",`+text+`}]}`)
		if err != nil || len(got) != 1 {
			t.Fatal(err, got)
		}
		if d := cmp.Diff(want, got[0].Allowed); d != "" {
			t.Errorf("%s (-want +got):\n%s", text, d)
		}
	}
}

func TestAnAllowanceThatChangesIsWritten(t *testing.T) {
	s := NewStore(nil, Location{Target: "kubernetes", Prefix: "x"})
	rec := records(1)[0]
	for n, allowed := range []*loss.Approval{{}, {Losses: loss.Counts{"Node": 1}}, {Losses: loss.Counts{"Node": 1}, Digest: "1"}, {Losses: loss.Counts{"Node": 1}, Digest: "1", Quoted: loss.Counts{"Node": 1}}, {Losses: loss.Counts{"Node": 1}, Digest: "1", Number: 1, Quoted: loss.Counts{"Node": 1}}, nil} {
		for _, changed := range []bool{true, false} {
			rec.Allowed = nil
			if allowed != nil {
				same := *allowed
				rec.Allowed = &same
			}
			s.dirty = false
			s.Put(rec)
			if s.dirty != changed {
				t.Errorf("%d: to be written: %v, want %v", n, s.dirty, changed)
			}
		}
	}
}

// found is what a List of the shards would show, but for those left out.
func found(shards []string, without ...int) map[int]shard {
	out := map[int]shard{}
	for n, content := range shards {
		if !slices.Contains(without, n) {
			out[n] = shard{version: "1", content: content}
		}
	}
	return out
}

func TestAMissingShardIsDetectedWhicheverItIs(t *testing.T) {
	shards := Encode(records(6000), 0)
	last := len(shards) - 1
	for _, tt := range []struct {
		name     string
		without  []int
		complete bool
	}{
		{"all are there", nil, true},
		{"the first is missing", []int{0}, false},
		{"one in the middle is missing", []int{1}, false},
		{"the last is missing", []int{last}, false},
		{"all but the first are missing", []int{1, 2, 3, last}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := NewStore(nil, Location{Target: "kubernetes", Prefix: "x"})
			complete, err := s.adopt(found(shards, tt.without...))
			if err != nil || complete != tt.complete || len(s.shards) != len(shards) {
				t.Errorf("complete is %v with %d of %d shards, error %v", complete, len(s.shards), len(shards), err)
			}
			// What is lost while this process runs is in its memory, and is
			// noticed all the same, to be written again.
			if complete, err := s.adopt(found(shards, last)); err != nil || complete || !s.dirty {
				t.Errorf("the last shard's loss was not noticed: %v, %v, %v", complete, s.dirty, err)
			}
		})
	}
}

// TestWhatAnotherProcessWroteIsTakenOver has a controller's memory meet what bootstrap
// wrote beside it.
func TestWhatAnotherProcessWroteIsTakenOver(t *testing.T) {
	record := func(uid, desired string) Record {
		r := Record{Key: state.Key{Target: "aws", Group: "eks", Kind: "AccessEntry", Name: "nodes"}, Version: "v1", Desired: desired}
		r.Fingerprint.UID = uid
		return r
	}
	for _, tt := range []struct {
		name                      string
		stored, memory, now, want Record
	}{
		{"made anew", record("old", "a"), record("old", "a"), record("new", "a"), record("new", "a")},
		{"changed", record("old", "a"), record("old", "a"), record("old", "b"), record("old", "b")},
		{"about to be made anew", record("old", "a"), record("old", "a"), record("", "a"), record("", "a")},
		{"nobody wrote", record("old", "a"), record("old", "b"), record("old", "a"), record("old", "b")},
		{"both changed it: memory is about to be written", record("old", "a"), record("mine", "b"), record("theirs", "c"), record("mine", "b")},
		{"an intent of ours that another life carried out", record("", "a"), record("", "b"), record("new", "b"), record("new", "b")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := NewStore(nil, Location{Target: "aws", Prefix: "x"})
			take := func(version string, r Record) {
				t.Helper()
				if _, err := s.adopt(map[int]shard{0: {version: version, content: Encode([]Record{r}, 0)[0]}}); err != nil {
					t.Fatal(err)
				}
			}
			take("1", tt.stored)
			tt.memory.Fingerprint.Generation, tt.memory.Fingerprint.ResourceVersion = 7, "7" // Which nobody stores for their own sake.
			s.Put(tt.memory)
			take("2", tt.now)
			got, _ := s.Get(tt.want.Key)
			got.Fingerprint.Generation, got.Fingerprint.ResourceVersion = 0, ""
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// FuzzDecode reads any text; what it accepts, it writes and reads again the
// same.
func FuzzDecode(f *testing.F) {
	f.Add(Encode(records(3), 0)[0])
	f.Add(`{"format":1,"shards":1,"records":[{"kind":"X","version":"v1","name":"n"},{"kind":"X","version":"v2","name":"n"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		in, _, err := Decode("kubernetes", text)
		if err != nil {
			return
		}
		slices.SortStableFunc(in, func(a, b Record) int { return a.Key.Compare(b.Key) })
		if len(in) == 0 {
			return
		}
		if d := cmp.Diff(len(in), len(decodeAll(t, Encode(in, 1)))); d != "" {
			t.Error(d)
		}
	})
}

func TestRecordsAreInOrderWhateverComesAndGoes(t *testing.T) {
	s := NewStore(nil, Location{Target: "kubernetes"})
	all := records(20)
	for i, r := range slices.Backward(all) {
		if i%2 == 0 {
			r.Fingerprint.ResourceVersion = "7"
		}
		s.Put(r)
		if i%5 == 0 {
			s.Records()
		}
	}
	s.Remove(all[3].Key)
	changed := all[4]
	changed.Wave = 9
	s.Put(changed)
	got := s.Records()
	if len(got) != 19 || !slices.IsSortedFunc(got, func(a, b Record) int { return a.Key.Compare(b.Key) }) {
		t.Errorf("%d records, or not in order", len(got))
	}
	if i := slices.IndexFunc(got, func(r Record) bool { return r.Key == changed.Key }); i < 0 || got[i].Wave != 9 {
		t.Error("a record that was put again is not as it was put")
	}
	// One of ten that named a version was put again without.
	if current, of := s.Current("apps", "Deployment", "v1"); current != 9 || of != 19 {
		t.Errorf("%d of %d are current", current, of)
	}
	if _, of := s.Current("apps", "Deployment", "v2"); of != 0 {
		t.Errorf("%d of another version", of)
	}
}
