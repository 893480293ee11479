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
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/state"
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
	verbs := map[string]func(context.Context, *frameExchange) (result, error){verbLoad: serveLoad, verbForecast: serveForecast}
	do, ok := verbs[verb]
	if !ok {
		return fmt.Errorf("a worker process has no command %q, only %s; poolwright alone starts it", verb, strings.Join(slices.Sorted(maps.Keys(verbs)), " and "))
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

type frame struct {
	kind    frameType
	payload []byte
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

// serve does the work and writes the result.
func (t *frameExchange) serve(ctx context.Context, do func(context.Context, *frameExchange) (result, error)) error {
	found, err := do(ctx, t)
	if err != nil {
		found = result{Failure: errorObjectOf(err)}
	}
	raw, err := json.Marshal(found)
	if err != nil {
		raw, err = json.Marshal(result{Failure: errorObjectOf(fmt.Errorf("writing the response: %w", err))})
	}
	if err != nil {
		return err
	}
	if err := t.out.send(frameResult, raw); err != nil {
		return fmt.Errorf("writing the response: %w", err)
	}
	return nil
}

// result is that of either verb.
type result struct {
	Failure *errorObject `json:"failure,omitempty"`
	// Items are those of the Folder's Set.
	Items    []state.Item        `json:"items,omitempty"`
	Folder   checked.Folder      `json:"folder,omitzero"`
	Forecast *provision.Forecast `json:"forecast,omitempty"`
}

// errorObject is an error with its class.
type errorObject struct {
	Class  state.Class   `json:"class"`
	Reason string        `json:"reason"`
	After  time.Duration `json:"after,omitempty"`
	Text   string        `json:"text"`
}

func errorObjectOf(err error) *errorObject {
	class, reason, after := state.Classify(err)
	return &errorObject{Class: class, Reason: reason, After: after, Text: err.Error()}
}

// err is the error again, of the same class.
func (f *errorObject) err() error {
	text := errors.New(shortened(f.Text, maxFailureBytes))
	switch f.Class {
	case state.Stalled:
		return state.Fail(state.Stalled, f.Reason, text)
	case state.Wait:
		return state.WaitFor(f.After, f.Reason, text)
	case state.Retry:
	}
	return text
}
