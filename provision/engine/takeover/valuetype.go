package takeover

import (
	"net/url"
	"strconv"
	"time"
)

// valueType is of which type the values of a variable are.
type valueType int

const (
	text valueType = iota
	boolean
	integer
	positive
	duration
	fraction
	httpsURL
)

// shortest is the shortest duration that a field takes.
const shortest = 10 * time.Millisecond

// declared is a value as the field of the Cluster takes it; nil where the field takes none
// such. A fraction is a text there, since the API has no floats.
func (t valueType) declared(value string) any {
	if t == text {
		return value
	}
	takes := map[valueType]func(string) (any, bool){
		boolean: func(v string) (any, bool) {
			on, err := strconv.ParseBool(v)
			return on, err == nil
		},
		integer: func(v string) (any, bool) {
			n, err := strconv.ParseInt(v, 10, 32)
			return n, err == nil && n >= 0
		},
		positive: func(v string) (any, bool) {
			n, err := strconv.ParseInt(v, 10, 32)
			return n, err == nil && n > 0
		},
		duration: func(v string) (any, bool) {
			d, err := time.ParseDuration(v)
			return d.Round(time.Millisecond).String(), err == nil && d >= shortest
		},
		fraction: func(v string) (any, bool) {
			part, err := strconv.ParseFloat(v, 64)
			return strconv.FormatFloat(part, 'f', -1, 64), err == nil && part >= 0 && part < 1
		},
		httpsURL: func(v string) (any, bool) {
			u, err := url.Parse(v)
			return v, err == nil && u.Scheme == "https" && u.Hostname() != "" && u.User == nil
		},
	}
	if declared, ok := takes[t](value); ok {
		return declared
	}
	return nil
}

// printable is a value without the password that a URL may have.
func (t valueType) printable(value string) string {
	if t != httpsURL {
		return value
	}
	u, err := url.Parse(value)
	if err != nil {
		return "no URL"
	}
	return u.Redacted()
}

// same compares two values by what they mean.
func (t valueType) same(a, b string) bool {
	switch t {
	case duration:
		x, errX := time.ParseDuration(a)
		y, errY := time.ParseDuration(b)
		return errX == nil && errY == nil && x == y
	case integer, positive, fraction:
		x, errX := strconv.ParseFloat(a, 64)
		y, errY := strconv.ParseFloat(b, 64)
		return errX == nil && errY == nil && x == y
	case boolean:
		x, errX := strconv.ParseBool(a)
		y, errY := strconv.ParseBool(b)
		return errX == nil && errY == nil && x == y
	case text, httpsURL:
	}
	return a == b
}
