package gitlab

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/rest"
)

// permission is what a call needs: a scope of the token, and a role of its user, empty where
// every user may.
type permission struct{ scope, role string }

var (
	reading    = permission{"api", "Reporter"}
	commenting = permission{"api", "Reporter"}
	setting    = permission{"api", "Developer, and for a protected branch the permission to merge or to push"}
	identity   = permission{scope: "api"}
)

// remedy is what is missing where GitLab forbids a call.
func (n permission) remedy(project string) string {
	out := fmt.Sprintf("the token needs the scope %q", n.scope)
	if n.role != "" {
		out += fmt.Sprintf(" and its user in %s the role %s", project, n.role)
	}
	return out
}

// failed makes the error of a call.
func (f *Forge) failed(doing string, what permission, err error) *forge.Error {
	var result rest.Response
	if refused, ok := errors.AsType[*apiError](err); ok {
		result = rest.Response{Code: refused.code, Message: cmp.Or(refused.message, http.StatusText(refused.code))}
	}
	out := rest.Explain(doing, err, result, f.config.Token)
	if out.Until.IsZero() && out.Remedy == "" {
		out.Remedy = f.remedy(out.Code, what)
	}
	return out
}

// remedy is what a person can do about a response.
func (f *Forge) remedy(code int, what permission) string {
	switch {
	case code >= 300 && code < 400:
		return "has the project been renamed or moved? Give its new path: reads are sent on, writes are not"
	case code == http.StatusUnauthorized:
		return "the token is wrong, expired or revoked: make a new one and put it into the Secret"
	case code == http.StatusForbidden:
		return what.remedy(f.config.Project)
	case code == http.StatusNotFound:
		return fmt.Sprintf("it does not exist, or the token's user may not read it: make the user a member of %s", f.config.Project)
	}
	return ""
}
