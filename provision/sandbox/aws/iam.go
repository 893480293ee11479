package aws

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// iamOperations is IAM: roles, their policies, instance profiles, customer
// managed policies and the cluster's OIDC provider.
func iamOperations() map[string]operation {
	return merged(roleOperations(), rolePolicyOperations(), profileOperations(), policyOperations(), providerOperations())
}

func merged(tables ...map[string]operation) map[string]operation {
	out := map[string]operation{}
	for _, t := range tables {
		maps.Copy(out, t)
	}
	return out
}

// identities is what IAM remembers.
type identities struct {
	profiles map[string]*profile       // by name
	roles    map[string]*role          // by name
	policies map[string]*managedPolicy // customer managed, by ARN
}

// newIdentities has what the config says; such roles are those of nodes.
func newIdentities(st *state, cfg Config) identities {
	out := identities{profiles: map[string]*profile{}, roles: map[string]*role{}, policies: map[string]*managedPolicy{}}
	now := cfg.Clock.Now()
	names := slices.Sorted(maps.Values(cfg.Profiles))
	for _, name := range slices.Concat(cfg.Roles, names) {
		if out.roles[name] == nil {
			out.roles[name] = &role{name: name, path: "/", id: st.account.NewEntityID("AROA"), trust: nodeTrust, session: 3600, created: now,
				tags: map[string]string{}, attached: map[string]string{}, inline: map[string]string{}}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Profiles)) {
		out.profiles[name] = &profile{name: name, path: "/", id: st.account.NewEntityID("AIPA"), role: cfg.Profiles[name], created: now, tags: map[string]string{}}
	}
	return out
}

func (i identities) clone() identities {
	out := identities{profiles: make(map[string]*profile, len(i.profiles)), roles: make(map[string]*role, len(i.roles)), policies: make(map[string]*managedPolicy, len(i.policies))}
	for name, p := range i.profiles {
		c := *p
		c.tags = maps.Clone(p.tags)
		out.profiles[name] = &c
	}
	for name, r := range i.roles {
		c := *r
		c.tags, c.attached, c.inline = maps.Clone(r.tags), maps.Clone(r.attached), maps.Clone(r.inline)
		out.roles[name] = &c
	}
	for arn, p := range i.policies {
		c := *p
		c.tags, c.versions = maps.Clone(p.tags), slices.Clone(p.versions)
		out.policies[arn] = &c
	}
	return out
}

// hasProfile reports whether a launch finds an instance profile.
func (i identities) hasProfile(name string, now time.Time) bool {
	p := i.profiles[name]
	return p != nil && !now.Before(p.visibleAt)
}

func iamError(status int, code, format string, args ...any) error {
	return api.NewError(status, code, fmt.Sprintf(format, args...))
}

func noEntity(format string, args ...any) error {
	return iamError(http.StatusNotFound, "NoSuchEntity", format, args...)
}

func conflict(code, format string, args ...any) error {
	return iamError(http.StatusConflict, code, format, args...)
}

// iamARN is the ARN of an IAM entity of the account: kind is role, policy …
func (c *Cloud) iamARN(kind, path, name string) string {
	return fmt.Sprintf("arn:%s:iam::%s:%s%s%s", c.account.Partition(), c.account.ID, kind, path, name)
}

var (
	iamNameForm = regexp.MustCompile(`^[\w+=,.@-]+$`)
	iamPathForm = regexp.MustCompile(`^/([!-~]+/)?$`)
)

// iamName reads the name of an entity that is to be made.
func (in *call) iamName(param string, most int) (string, error) {
	name := in.Form.Get(param)
	if !iamNameForm.MatchString(name) || len(name) > most {
		return "", api.Refuse("ValidationError", "1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: 1 to %d letters, digits and +=,.@_-", name, param, most)
	}
	return name, nil
}

// taken reports whether a name is in use: IAM tells no two names apart by case
// alone.
func taken[T any](have map[string]T, name string) bool {
	for other := range have {
		if strings.EqualFold(other, name) {
			return true
		}
	}
	return false
}

// iamPath reads the path of an entity that is to be made.
func (in *call) iamPath() (string, error) {
	path := in.Form.Get("Path")
	if path == "" {
		return "/", nil
	}
	if !iamPathForm.MatchString(path) || len(path) > 512 {
		return "", api.Refuse("ValidationError", "The specified value for path is invalid. It must begin and end with / and contain only alphanumeric characters and/or / characters; got '%s'.", path)
	}
	return path, nil
}

// iamEntity is what all that is made in IAM has.
type iamEntity struct {
	name, path string
	tags       map[string]string
}

// iamEntity reads it, with the name in the given parameter.
func (in *call) iamEntity(param string, most int) (e iamEntity, err error) {
	if e.name, err = in.iamName(param, most); err != nil {
		return e, err
	}
	if e.path, err = in.iamPath(); err != nil {
		return e, err
	}
	e.tags, err = in.iamTags(param == "RoleName")
	return e, err
}

// escapeDocument writes a policy document as IAM's answers do.
func escapeDocument(doc string) string {
	return strings.ReplaceAll(url.QueryEscape(doc), "+", "%20")
}

// iamListing are the parameters that all of IAM's lists have.
func iamListing(also ...string) []string { return append(also, "Marker", "MaxItems") }

// iamPage cuts the rows of a list to MaxItems, and says how to go on.
func (in *call) iamPage(list string, rows []api.Row) ([]query.Element, error) {
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
