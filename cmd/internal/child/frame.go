package child

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// frameType is what a frame contains.
type frameType byte

const (
	// From the child: it is limited now; a request for the tree; a build that it made, and which
	// ones it used; the result, or an errorObject, why there is none.
	frameReady  frameType = 'r'
	frameRead   frameType = 'a'
	frameMade   frameType = 'm'
	frameUsed   frameType = 'u'
	frameResult frameType = 'z'
	frameError  frameType = 'e'
	// To the child: a build that is kept; what to do; the response to a request; one object of a
	// snapshot.
	frameBuild   frameType = 'p'
	frameRequest frameType = 'q'
	frameReply   frameType = 'b'
	frameObject  frameType = 'o'
)

type frame struct {
	kind    frameType
	payload []byte
}

// encoded is a result as a frame has it.
func encoded(found any) ([]byte, error) {
	raw, err := json.Marshal(found)
	if err != nil {
		return nil, fmt.Errorf("writing the response: %w", err)
	}
	return raw, nil
}

// frameHead is a type and the payload's length, big-endian.
const frameHead = 5

// More was to go, or came, than is allowed.
var (
	errSendLimit = errors.New("more bytes to send than allowed")
	errGotten    = errors.New("more bytes received than allowed")
)

// writer writes frames, and no more bytes than it has left.
type writer struct {
	to        io.Writer
	remaining int64
}

func (w *writer) send(m frameType, payload []byte) error {
	if w.remaining -= frameHead + int64(len(payload)); w.remaining < 0 || len(payload) > 1<<31 {
		return errSendLimit
	}
	head := binary.BigEndian.AppendUint32([]byte{byte(m)}, uint32(len(payload)))
	// One write where it is cheap: the other side waits for all of it.
	if len(payload) < 1<<12 {
		_, err := w.to.Write(append(head, payload...))
		return err
	}
	if _, err := w.to.Write(head); err != nil {
		return err
	}
	_, err := w.to.Write(payload)
	return err
}

// reader reads frames whose sender is not trusted, and no more bytes than it has
// left. It takes memory for what came, not for what was announced.
type reader struct {
	from      io.Reader
	remaining int64
	// builds is what is left for builds, which count apart.
	builds int64
}

// next returns the next frame. At the end, also within a frame, it is io.EOF.
func (r *reader) next() (frameType, []byte, error) {
	if r.remaining < frameHead {
		return 0, nil, errGotten
	}
	var head [frameHead]byte
	if _, err := io.ReadFull(r.from, head[:]); err != nil {
		return 0, nil, ended(err)
	}
	r.remaining -= frameHead
	left := &r.remaining
	if frameType(head[0]) == frameMade {
		left = &r.builds
	}
	n := int64(binary.BigEndian.Uint32(head[1:]))
	if n > *left {
		return 0, nil, errGotten
	}
	*left -= n
	var payload bytes.Buffer
	if n <= 1<<16 {
		payload.Grow(int(n))
	}
	if _, err := io.CopyN(&payload, r.from, n); err != nil {
		return 0, nil, ended(err)
	}
	return frameType(head[0]), payload.Bytes(), nil
}

// expect returns the payload of the next frame, which must have that type.
func (r *reader) expect(m frameType) ([]byte, error) {
	got, payload, err := r.next()
	if err == nil && got != m {
		err = unexpected(got)
	}
	return payload, err
}

// last returns the next frame, which must be the child's last.
func (r *reader) last() (frame, error) {
	kind, payload, err := r.next()
	if err == nil && !kind.last() {
		err = unexpected(kind)
	}
	return frame{kind, payload}, err
}

// last reports whether nothing comes after a frame of that type.
func (t frameType) last() bool { return t == frameResult || t == frameError }

func unexpected(got frameType) error { return fmt.Errorf("a frame %q came out of turn", byte(got)) }

func ended(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}
