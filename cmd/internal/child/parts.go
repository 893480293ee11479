package child

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/poolwright/poolwright/reconciler/declared/part"
)

// maxPartBytes is how much a child returns of parts, in bytes. Those beyond it are made anew each time.
const maxPartBytes = part.MaxBytes / 2

// errPart is the error of a frame that is no part.
var errPart = errors.New("a part of what was rendered cannot be read")

// encodePart is a part as a frame has it: the length of its name and reads, these, and the content.
func encodePart(p part.Part) ([]byte, error) {
	head, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, 4+len(head)+len(p.Content))
	out = binary.BigEndian.AppendUint32(out, uint32(len(head)))
	return append(append(out, head...), p.Content...), nil
}

func decodePart(frame []byte) (part.Part, error) {
	if len(frame) < 4 {
		return part.Part{}, errPart
	}
	n, rest := binary.BigEndian.Uint32(frame), frame[4:]
	if int64(n) > int64(len(rest)) {
		return part.Part{}, errPart
	}
	var p part.Part
	if err := json.Unmarshal(rest[:n], &p); err != nil {
		return part.Part{}, err
	}
	p.Content = rest[n:]
	return p, nil
}

// keptParts are the parts that the parent sends; nil where it keeps none.
func keptParts(t *frameExchange, count *int) (*part.Parts, error) {
	if count == nil {
		return nil, nil
	}
	var kept []part.Part
	for range *count {
		frame, err := t.expect(framePart)
		if err != nil {
			return nil, err
		}
		p, err := decodePart(frame)
		if err != nil {
			return nil, err
		}
		kept = append(kept, p)
	}
	return part.NewParts(kept...), nil
}

// sendParts returns to the parent what it is to keep.
func sendParts(out *writer, parts *part.Parts) error {
	if parts == nil {
		return nil
	}
	left := maxPartBytes
	for _, p := range parts.Made() {
		frame, err := encodePart(p)
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
	used, err := json.Marshal(parts.Used())
	if err != nil {
		return err
	}
	return out.send(frameUsed, used)
}

// returnedParts are what a child returns of parts.
type returnedParts struct {
	made []part.Part
	used []string
}

// add takes a frame; false where it is of another kind.
func (r *returnedParts) add(kind frameType, payload []byte) (bool, error) {
	switch kind {
	case frameMade:
		p, err := decodePart(payload)
		r.made = append(r.made, p)
		return true, err
	case frameUsed:
		return true, json.Unmarshal(payload, &r.used)
	default:
		return false, nil
	}
}

// send sends a request for which parts are kept, and these.
func (r *Runner) send(in *writer, tree fs.FS, request loadRequest) error {
	kept := r.Parts.Valid(tree)
	if r.Parts != nil {
		n := len(kept)
		request.Parts = &n
	}
	raw, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if err := in.send(frameRequest, raw); err != nil {
		return err
	}
	for _, p := range kept {
		frame, err := encodePart(p)
		if err != nil {
			return err
		}
		if err := in.send(framePart, frame); err != nil {
			return err
		}
	}
	return nil
}
