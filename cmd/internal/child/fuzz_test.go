package child

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision"
)

// FuzzFrames reads what a child, or a parent, might send.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{}, int64(100))
	f.Add([]byte("r\x00\x00\x00\x00z\x00\x00\x00\x02{}"), int64(100))
	f.Add([]byte("a\x00\x00\x00\x02s.z\xff\xff\xff\xff"), int64(1<<40))
	f.Fuzz(func(t *testing.T, sent []byte, left int64) {
		in := &reader{from: bytes.NewReader(sent), remaining: left}
		var again bytes.Buffer
		out := &writer{to: &again, remaining: int64(len(sent))}
		for {
			m, payload, err := in.next()
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, errGotten) {
					t.Errorf("an error of its own: %v", err)
				}
				break
			}
			if err := out.send(m, payload); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(sent, again.Bytes()) || int64(again.Len()) > max(left, 0) {
			t.Errorf("read %q of %q with %d", again.Bytes(), sent, left)
		}
	})
}

// FuzzConversations lets a child send anything to its parent.
func FuzzConversations(f *testing.F) {
	f.Add([]byte("a\x00\x00\x00\x02s.a\x00\x00\x00\x02d.a\x00\x00\x00\x02fxz\x00\x00\x00\x02{}"))
	f.Add([]byte("a\x00\x00\x00\x04f../a\x00\x00\x00\x00"))
	f.Add([]byte("e\x00\x00\x00\x0b{\"class\":7}"))
	f.Add([]byte("z\x00\x00\x00\x0b[{},[{},1]]"))
	f.Fuzz(func(t *testing.T, got []byte) {
		tree := fstest.MapFS{"x": &fstest.MapFile{Data: []byte("y")}}
		last, err := serveTree(tree, &writer{to: io.Discard, remaining: 1 << 16}, &reader{from: bytes.NewReader(got), remaining: 1 << 16}, &returnedBuilds{})
		if err != nil {
			return
		}
		raw, err := Limits{}.withDefaults().decodable("rendering", last)
		if (err != nil) != (last.kind == frameError) {
			t.Fatalf("%q: %v", last.kind, err)
		}
		if err == nil {
			_, _ = (&Runner{}).Decode(raw)
		}
	})
}

// FuzzSnapshots reads what a parent might send of snapshots, and sends it again.
func FuzzSnapshots(f *testing.F) {
	var some bytes.Buffer
	full := provision.ClusterSnapshot{}
	_ = send(&writer{to: &some, remaining: 1 << 20}, settings(), full, full)
	f.Add(some.Bytes())
	f.Add([]byte("q\x00\x00\x00\x1f{\"follow\":[0,1,0,0,0],\"after\":{\"nodes\":[0,-1,7]}}o\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		in := &reader{from: bytes.NewReader(sent), remaining: 1 << 20}
		s, before, after, err := receive(in.expect)
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := send(&writer{to: &again, remaining: 1 << 24}, s, before, after); err != nil {
			return
		}
		in = &reader{from: &again, remaining: 1 << 24}
		s2, _, after2, err := receive(in.expect)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(s, s2); d != "" {
			t.Error(d)
		}
		if (after.Pods == nil) != (after2.Pods == nil) || len(after.Nodes) != len(after2.Nodes) {
			t.Error("the lists differ")
		}
	})
}
