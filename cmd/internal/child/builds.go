package child

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/poolwright/poolwright/reconciler/declared/buildcache"
)

// maxBuildBytes is how much a child returns of builds, in bytes. Those beyond it are made anew each time.
const maxBuildBytes = buildcache.MaxBytes / 2

// errBuild is the error of a frame that is no build.
var errBuild = errors.New("a build of what was rendered cannot be read")

// encodeBuild is a build as a frame has it: the length of its name and reads, these, and the content.
func encodeBuild(p buildcache.Build) ([]byte, error) {
	head, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, 4+len(head)+len(p.Content))
	out = binary.BigEndian.AppendUint32(out, uint32(len(head)))
	return append(append(out, head...), p.Content...), nil
}

func decodeBuild(frame []byte) (buildcache.Build, error) {
	if len(frame) < 4 {
		return buildcache.Build{}, errBuild
	}
	n, rest := binary.BigEndian.Uint32(frame), frame[4:]
	if int64(n) > int64(len(rest)) {
		return buildcache.Build{}, errBuild
	}
	var p buildcache.Build
	if err := json.Unmarshal(rest[:n], &p); err != nil {
		return buildcache.Build{}, err
	}
	p.Content = rest[n:]
	return p, nil
}

// keptBuilds are the builds that the parent sends; nil where it keeps none.
func keptBuilds(t *frameExchange, count *int) (*buildcache.Builds, error) {
	if count == nil {
		return nil, nil
	}
	var kept []buildcache.Build
	for range *count {
		frame, err := t.expect(frameBuild)
		if err != nil {
			return nil, err
		}
		p, err := decodeBuild(frame)
		if err != nil {
			return nil, err
		}
		kept = append(kept, p)
	}
	return buildcache.NewBuilds(kept...), nil
}

// sendBuilds returns to the parent what it is to keep.
func sendBuilds(out *writer, builds *buildcache.Builds) error {
	if builds == nil {
		return nil
	}
	left := maxBuildBytes
	for _, p := range builds.Made() {
		frame, err := encodeBuild(p)
		if err != nil {
			return err
		}
		if left -= len(frame); left < 0 {
			break
		}
		if err := out.send(frameMade, frame); err != nil {
			return err
		}
	}
	used, err := json.Marshal(builds.Used())
	if err != nil {
		return err
	}
	return out.send(frameUsed, used)
}

// returnedBuilds are what a child returns of builds.
type returnedBuilds struct {
	made []buildcache.Build
	used []string
}

// add takes a frame; false where it is of another kind.
func (r *returnedBuilds) add(kind frameType, payload []byte) (bool, error) {
	switch kind {
	case frameMade:
		p, err := decodeBuild(payload)
		r.made = append(r.made, p)
		return true, err
	case frameUsed:
		return true, json.Unmarshal(payload, &r.used)
	default:
		return false, nil
	}
}

// send sends a request for which builds are kept, and these.
func (r *Runner) send(in *writer, tree fs.FS, request loadRequest) error {
	kept := r.Builds.Valid(tree)
	if r.Builds != nil {
		n := len(kept)
		request.Builds = &n
	}
	raw, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if err := in.send(frameRequest, raw); err != nil {
		return err
	}
	for _, p := range kept {
		frame, err := encodeBuild(p)
		if err != nil {
			return err
		}
		if err := in.send(frameBuild, frame); err != nil {
			return err
		}
	}
	return nil
}
