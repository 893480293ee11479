package server

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/poolwright/poolwright/cmd/internal/ui/page"
)

// reader is somebody who reads a stream.
type reader struct {
	*httptest.ResponseRecorder
	// events are what is written until each flush.
	events  chan string
	written strings.Builder
}

func (r *reader) Write(content []byte) (int, error) { return r.written.Write(content) }

func (r *reader) WriteString(content string) (int, error) { return r.written.WriteString(content) }

func (r *reader) Flush() {
	r.events <- r.written.String()
	r.written.Reset()
}

// read opens the stream of a page in the bubble of the test.
func read(t *testing.T, s *Server, target string) (r *reader, leave func()) {
	t.Helper()
	out := &reader{ResponseRecorder: httptest.NewRecorder(), events: make(chan string, 100)}
	request := httptest.NewRequest(http.MethodGet, "http://"+host+target, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.updates().ServeHTTP(out, request.WithContext(ctx))
	}()
	return out, func() {
		cancel()
		<-done
	}
}

var eventName = regexp.MustCompile(`(?m)^event: (.*)$`)

// sections are those that an event has.
func sections(text string) string {
	var out []string
	for _, m := range eventName.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return strings.Join(out, " ")
}

const allSections = "status summary attention pools nodes recent pulls drift syncs quotas"

func TestAStreamHasTheWholePageAndThenWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDocuments()
		_, s, _ := started(t, d)
		r, leave := read(t, s, "/")
		defer leave()
		if got := sections(<-r.events); got != allSections {
			t.Errorf("first it has %q", got)
		}
		d.pending.Store(3)
		d.changed <- struct{}{}
		changed := <-r.events
		if got := sections(changed); got != "summary" {
			t.Errorf("after a change it has %q", got)
		}
		for line := range strings.Lines(changed) {
			if !regexp.MustCompile(`^(event: summary|data: .*)?\n$`).MatchString(line) {
				t.Errorf("a line of the stream is %q", line)
			}
		}
	})
}

func TestAChangeIsOnThePageWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDocuments()
		_, s, _ := started(t, d)
		r, leave := read(t, s, "/")
		defer leave()
		<-r.events
		begin := time.Now()
		d.pending.Store(3)
		d.changed <- struct{}{}
		<-r.events
		if passed := time.Since(begin); passed > 2*time.Second {
			t.Errorf("it took %v", passed)
		}
	})
}

func TestAStreamWithoutChangesHasAHeartbeatOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, _ := started(t, newDocuments())
		r, leave := read(t, s, "/")
		defer leave()
		<-r.events
		if got := <-r.events; got != ":\n\n" {
			t.Errorf("it has %q", got)
		}
	})
}

// However many read a page, it is rendered once for each change, and no more often than once a second.
func TestSixtyFourReadersCostAsMuchAsOne(t *testing.T) {
	readings := func(readers int) (reports int32) {
		synctest.Test(t, func(t *testing.T) {
			d := newDocuments()
			_, s, _ := started(t, d)
			for range readers {
				r, leave := read(t, s, "/")
				defer leave()
				<-r.events
			}
			for range 100 {
				d.pending.Add(1)
				select {
				case d.changed <- struct{}{}:
				default:
				}
				time.Sleep(100 * time.Millisecond) //nolint:forbidigo // In the bubble of synctest.
			}
			synctest.Wait()
			reports = d.reports.Load()
		})
		return reports
	}
	one, all := readings(1), readings(maxStreams)
	if one != all || one > 12 {
		t.Errorf("for ten seconds of changes the cluster was read %d times for one reader, and %d times for %d", one, all, maxStreams)
	}
}

// The pages of the history follow it as the overview does.
func TestThePagesOfTheHistoryAreStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for target, want := range map[string]string{"/events": "status events", "/savings?hours=24": "status savings", "/pulls/38": "status pull", "/pulls/7": "pull", "/nodes/missing": "explanation"} {
			d := newDocuments()
			d.history = recorded()
			_, s, _ := started(t, d)
			r, leave := read(t, s, target)
			if got := sections(<-r.events); got != want {
				t.Errorf("%s has %q, not %q", target, got, want)
			}
			leave()
		}
	})
}

func TestNobodyReadingCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDocuments()
		_, s, _ := started(t, d)
		r, leave := read(t, s, "/")
		<-r.events
		leave()
		synctest.Wait()
		before := d.reports.Load()
		d.changed <- struct{}{}
		time.Sleep(time.Hour) //nolint:forbidigo // In the bubble of synctest.
		if after := d.reports.Load(); after != before {
			t.Errorf("the cluster was read %d times for nobody", after-before)
		}
		if len(s.hub.live) > 0 || s.hub.streams > 0 {
			t.Errorf("%d pages and %d streams are left", len(s.hub.live), s.hub.streams)
		}
	})
}

func TestAPageThatIsReadAgainIsRenderedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, _ := started(t, newDocuments())
		for range 3 {
			r, leave := read(t, s, "/")
			if got := sections(<-r.events); got != allSections {
				t.Errorf("it has %q", got)
			}
			leave()
		}
	})
}

func TestStreamsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, _ := started(t, newDocuments())
		var leaves []func()
		for range maxStreams {
			r, leave := read(t, s, "/")
			<-r.events
			leaves = append(leaves, leave)
		}
		w := httptest.NewRecorder()
		s.updates().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("one more stream: %d", w.Code)
		}
		leaves[0]()
		r, leave := read(t, s, "/")
		<-r.events
		for _, leave := range append(leaves[1:], leave) {
			leave()
		}
	})
}

// A reader that does not read gets the newest page when it does, and holds up nobody.
func TestASlowReaderGetsTheNewestPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, _ := started(t, newDocuments())
		updates, leave, ok := s.hub.subscribe(httptest.NewRequest(http.MethodGet, "/", nil))
		if !ok {
			t.Fatal("it was refused")
		}
		defer leave()
		synctest.Wait()
		one := s.hub.live["/?0s"]
		for _, html := range []string{"a", "b", "c"} {
			s.hub.publish(one, []page.Section{{ID: "status", HTML: template.HTML(html)}})
		}
		if got := <-updates; got[0].section.HTML != "c" {
			t.Errorf("it got %s", got[0].section.HTML)
		}
	})
}

func TestAnExplanationIsMadeAnewByTimeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDocuments()
		_, s, _ := started(t, d)
		r, leave := read(t, s, "/pods/ml/train")
		defer leave()
		if got := sections(<-r.events); got != "status explanation" {
			t.Errorf("it has %q", got)
		}
		for range 20 {
			select {
			case d.changed <- struct{}{}:
			default:
			}
			time.Sleep(500 * time.Millisecond) //nolint:forbidigo // In the bubble of synctest.
		}
		if n := d.explained.Load(); n != 1 {
			t.Errorf("in ten seconds it was explained %d times", n)
		}
		time.Sleep(explainInterval) //nolint:forbidigo // In the bubble of synctest.
		if n := d.explained.Load(); n != 2 {
			t.Errorf("after its interval it was explained %d times", n)
		}
	})
}

// All readers of a page share its events, and a large page is rendered less often.
func TestALargePageIsEncodedOnceAndRenderedLessOften(t *testing.T) {
	one := &liveDocument{readers: map[chan []sectionEvent]bool{}}
	h := &hub{}
	sections := []page.Section{{ID: "status", HTML: "a"}, {ID: "nodes", HTML: template.HTML(strings.Repeat("x", 10*readerRate))}}
	if pause := h.publish(one, sections); pause < 10*time.Second || pause > 11*time.Second {
		t.Errorf("a page of ten seconds' bytes is rendered again after %v", pause)
	}
	nodes := one.events[1]
	sections[0].HTML = "b"
	if pause := h.publish(one, sections); pause != renderInterval {
		t.Errorf("a page of which little changes is rendered again after %v", pause)
	}
	if unsafe.StringData(one.events[1].encoded) != unsafe.StringData(nodes.encoded) {
		t.Error("a section that did not change was encoded again")
	}
	for range maxStreams {
		one.readers[make(chan []sectionEvent, 1)] = true
	}
	sections[1].HTML = "y"
	h.publish(one, sections)
	for updates := range one.readers {
		if got := <-updates; unsafe.StringData(got[1].encoded) != unsafe.StringData(one.events[1].encoded) {
			t.Fatal("a reader has its own copy of an event")
		}
	}
}

// A page of what is no more, or cannot be read, must not stay as it was.
func TestAStreamHasTheErrorOfWhatCannotBeRendered(t *testing.T) {
	for target, want := range map[string]string{"/": "attention", "/pods/ml/train": "explanation"} {
		synctest.Test(t, func(t *testing.T) {
			d := newDocuments()
			_, s, _ := started(t, d)
			r, leave := read(t, s, target)
			defer leave()
			<-r.events
			d.err = errors.New("refused <b> ghp_0123456789abcdefABCDEF0123456789abcd")
			next := func() string {
				for {
					if text := <-r.events; !strings.HasPrefix(text, ":") {
						return text
					}
				}
			}
			got := next()
			if sections(got) != want || !strings.Contains(got, "could not be read") || strings.Contains(got, "<b>") || strings.Contains(got, "ghp_") {
				t.Errorf("%s: the stream has %s", target, got)
			}
			d.err = nil
			if got := next(); sections(got) != want || strings.Contains(got, "could not be read") {
				t.Errorf("%s: after it can be read again the stream has %s", target, got)
			}
		})
	}
}

func TestAPageOfWhatIsNoMoreHasNoCausesAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, _ := started(t, newDocuments())
		r, leave := read(t, s, "/pods/ml/missing")
		defer leave()
		if got := <-r.events; sections(got) != "explanation" || !strings.Contains(got, "Not found") {
			t.Errorf("the stream has %s", got)
		}
	})
}

func TestTheInterruptionIsOnEveryPage(t *testing.T) {
	d := newDocuments()
	d.interrupted = &page.Interruption{Since: time.Date(2026, 11, 26, 10, 30, 0, 0, time.UTC), Message: "refused"}
	h, _, token := started(t, d)
	cookie := loggedIn(t, h, token)
	for _, target := range []string{"/", "/pods/ml/train", "/nodes/a", "/pools/a"} {
		if got := body(t, do(h, http.MethodGet, target, cookie)); !strings.Contains(got, "could not be read since 10:30:00 UTC") || !strings.Contains(got, ">10:30:00</time>") {
			t.Errorf("%s is not as of the interruption: %s", target, got)
		}
	}
}
