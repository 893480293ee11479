package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// awaitSeries waits until the controller at the address serves the series that the list of faults in .ci/monitoring has for this
// test and an alert, which fires on them there, or a metric, which panels of dashboards have. It fails where the list has none.
func (f fixture) awaitSeries(wait func(what string, check func() error), address, of string) {
	f.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", ".ci", "monitoring", "testdata", "faults.txt"))
	if err != nil {
		f.Fatal(err)
	}
	test, _, _ := strings.Cut(f.Name(), "/")
	n := 0
	for line := range strings.Lines(string(raw)) {
		fields := strings.Split(line, " | ")
		if len(fields) != 4 || fields[0] != of || fields[1] != test {
			continue
		}
		n++
		wait("the series of "+of+" are served", func() error { return f.serves(address, fields[3], fields[2]) })
	}
	if n == 0 {
		f.Errorf("no series of %s is listed for %s", of, test)
	}
}

// servesMetrics has the next controllers serve metrics, and returns where.
func (s *syncFixture) servesMetrics() (address string) {
	s.Helper()
	address = freeAddress(s.T)
	s.flags = append(s.flags, "--metrics-addr="+address)
	return address
}

// serves compares a series that is served with a value: of zero it is equal, of "now" in the future, else that or higher.
func (f fixture) serves(address, series, value string) error {
	text, err := f.scrape(address)
	if err != nil {
		return err
	}
	name, rest, _ := strings.Cut(series, "{")
	labels, _, _ := strings.Cut(rest, "}")
	served := errors.New("it is not served")
lines:
	for line := range strings.Lines(text) {
		got, found := strings.CutPrefix(line, name+"{")
		if !found {
			continue
		}
		for label := range strings.SplitSeq(labels, ",") {
			if !strings.Contains(got, label) {
				continue lines
			}
		}
		now, err := strconv.ParseFloat(strings.TrimSpace(got[strings.LastIndexByte(got, ' '):]), 64)
		if err != nil {
			return err
		}
		want := float64(time.Now().Unix())
		if value != "now" {
			if want, err = strconv.ParseFloat(value, 64); err != nil {
				return err
			}
		}
		if now >= want && (want > 0 || now == 0) {
			return nil
		}
		served = fmt.Errorf("it is %g", now)
	}
	return fmt.Errorf("%s{%s}: %w, want %s", name, labels, served, value)
}

func (f fixture) scrape(address string) (string, error) {
	request, err := http.NewRequestWithContext(f.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the status is %s", response.Status)
	}
	return string(text), err
}
