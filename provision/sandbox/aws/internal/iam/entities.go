package iam

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func newError(status int, code, format string, args ...any) error {
	return api.NewError(status, code, fmt.Sprintf(format, args...))
}

func noEntity(format string, args ...any) error {
	return newError(http.StatusNotFound, "NoSuchEntity", format, args...)
}

func conflict(code, format string, args ...any) error {
	return newError(http.StatusConflict, code, format, args...)
}

var (
	nameForm = regexp.MustCompile(`^[\w+=,.@-]+$`)
	// Policies have fewer characters in their paths than roles and instance profiles.
	pathForm       = regexp.MustCompile(`^/([!-~]+/)?$`)
	policyPathForm = regexp.MustCompile(`^(/[A-Za-z0-9.,+@=_-]+)*/$`)
	prefixForm     = regexp.MustCompile(`^/[!-\x7f]*$`)
)

// readName reads the name of an entity that is to be made.
func readName(in *api.Call, param string, most int) (string, error) {
	name := in.Form.Get(param)
	if !nameForm.MatchString(name) || len(name) > most {
		return "", api.Refuse("ValidationError", "1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: 1 to %d letters, digits and +=,.@_-", name, param, most)
	}
	return name, nil
}

// taken reports whether a name is in use: no two names in IAM differ by case alone.
func taken[T any](have map[string]T, name string) bool {
	for other := range have {
		if strings.EqualFold(other, name) {
			return true
		}
	}
	return false
}

// readPath reads the path of an entity that is to be made.
func readPath(in *api.Call, form *regexp.Regexp) (string, error) {
	path := in.Form.Get("Path")
	if path == "" {
		return "/", nil
	}
	if !form.MatchString(path) || len(path) > 512 {
		return "", api.Refuse("ValidationError", "The specified value for path is invalid. It must begin and end with / and contain only alphanumeric characters and/or / characters; got '%s'.", path)
	}
	return path, nil
}

// readPrefix reads the path below which a list is requested.
func readPrefix(in *api.Call, form *regexp.Regexp) (string, error) {
	prefix := in.Form.Get("PathPrefix")
	if in.Form.Has("PathPrefix") && (!form.MatchString(prefix) || len(prefix) > 512) {
		return "", api.Refuse("ValidationError", "1 validation error detected: Value '%s' at 'pathPrefix' failed to satisfy constraint: it must begin with /", prefix)
	}
	return prefix, nil
}

// entity is what all that is made in IAM has.
type entity struct {
	name, path string
	tags       map[string]string
}

// readEntity reads it, with the name in the given parameter.
func readEntity(in *api.Call, param string, most int) (e entity, err error) {
	if e.name, err = readName(in, param, most); err != nil {
		return e, err
	}
	form := pathForm
	if param == "PolicyName" {
		form = policyPathForm
	}
	if e.path, err = readPath(in, form); err != nil {
		return e, err
	}
	e.tags, err = readTags(in, param == "RoleName")
	return e, err
}

// escapeDocument writes a policy document as IAM's responses do.
func escapeDocument(doc string) string {
	return strings.ReplaceAll(url.QueryEscape(doc), "+", "%20")
}

// listing are the parameters that all of IAM's lists have.
func listing(also ...string) []string { return append(also, "Marker", "MaxItems") }

// page cuts the rows of a list to MaxItems, with a token of the next ones.
func page(in *api.Call, list string, rows []api.Row) ([]query.Element, error) {
	most, limited, err := in.Form.Int("MaxItems")
	if err != nil || limited && (most < 1 || most > 1000) {
		return nil, api.Refuse("ValidationError", "MaxItems '%s' is not between 1 and 1000.", in.Form.Get("MaxItems"))
	}
	if !limited {
		most = 100
	}
	after, err := in.After(in.Form.Get("Marker"))
	if err != nil {
		return nil, api.Refuse("ValidationError", "Invalid Marker '%s'.", in.Form.Get("Marker"))
	}
	elements, next := in.Rows(rows, after, most)
	return []query.Element{query.List(list, "member", elements), query.Bool("IsTruncated", next != ""), query.Opt("Marker", next)}, nil
}

func merged(tables ...map[string]api.Operation) map[string]api.Operation {
	out := map[string]api.Operation{}
	for _, t := range tables {
		maps.Copy(out, t)
	}
	return out
}

// stamp writes a time as IAM does, in whole seconds.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
