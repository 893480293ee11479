package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/poolwright/poolwright/cmd/internal/child/confine"
)

// The verbs.
const (
	verbLoad     = "load"
	verbForecast = "forecast"
)

// Confine limits this very process, as the command line of a child sets it: bytes of
// memory and seconds of processor time. Call it before Serve.
func Confine(memory, seconds string) error {
	bytes, err := strconv.ParseInt(memory, 10, 64)
	if err != nil {
		return fmt.Errorf("reading the limit of memory: %w", err)
	}
	cpu, err := strconv.ParseInt(seconds, 10, 32)
	if err != nil {
		return fmt.Errorf("reading the limit of processor time: %w", err)
	}
	return confine.Self(bytes, time.Duration(cpu)*time.Second)
}

// Serve is the child's side: it reads from in what to do and writes the result to out.
// It returns when the result is written, or when in ends or ctx does: then nobody is
// left to read it. An error of the work itself is part of the result.
func Serve(ctx context.Context, verb string, in io.Reader, out io.Writer) error {
	verbs := map[string]verbFunc{verbLoad: serveLoad, verbForecast: serveForecast}
	do, ok := verbs[verb]
	if !ok {
		return fmt.Errorf("a child has no command %q, only %s; poolwright alone starts it", verb, strings.Join(slices.Sorted(maps.Keys(verbs)), " and "))
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	t := &frameExchange{out: &writer{to: out, remaining: maxExchange}, frames: make(chan frame), ended: make(chan struct{})}
	if err := t.out.send(frameReady, nil); err != nil {
		return fmt.Errorf("greeting the parent: %w", err)
	}
	go t.listen(ctx, in)
	done := make(chan error, 1)
	go func() { done <- t.serve(ctx, do) }()
	select {
	case err := <-done:
		return err
	case <-t.ended:
		return errInputEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// verbFunc does the work of a verb and encodes its result.
type verbFunc func(context.Context, *frameExchange) ([]byte, error)

// maxExchange bounds what a child reads and writes where its parent set nothing
// narrower: it is limited in memory anyway.
const maxExchange = 1 << 30

var errInputEnded = errors.New("the input ended before the response was written: the parent process ended, or sent what cannot be parsed")

// frameExchange is the child's end of the exchange.
type frameExchange struct {
	out    *writer
	frames chan frame
	// ended is closed when the input ends.
	ended chan struct{}
}

// listen reads also while nobody waits for a frame, to learn of the parent's end.
func (t *frameExchange) listen(ctx context.Context, in io.Reader) {
	defer close(t.ended)
	r := &reader{from: bufio.NewReaderSize(in, 64<<10), remaining: maxExchange}
	for {
		m, payload, err := r.next()
		if err != nil {
			return
		}
		select {
		case t.frames <- frame{m, payload}:
		case <-ctx.Done():
			return
		}
	}
}

// expect waits for a frame with that type.
func (t *frameExchange) expect(m frameType) ([]byte, error) {
	select {
	case f := <-t.frames:
		if f.kind != m {
			return nil, unexpected(f.kind)
		}
		return f.payload, nil
	case <-t.ended:
		return nil, errInputEnded
	}
}

// serve does the work and writes the result, or why there is none.
func (t *frameExchange) serve(ctx context.Context, do verbFunc) error {
	kind := frameResult
	raw, err := do(ctx, t)
	if err != nil {
		kind = frameError
		raw, err = json.Marshal(errorObjectOf(err))
	}
	if err != nil {
		return err
	}
	if err := t.out.send(kind, raw); err != nil {
		return fmt.Errorf("writing the response: %w", err)
	}
	return nil
}
