package eks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

func noResource(format string, args ...any) error {
	return api.NewError(http.StatusNotFound, "ResourceNotFoundException", fmt.Sprintf(format, args...))
}

func inUse(format string, args ...any) error {
	return api.NewError(http.StatusConflict, "ResourceInUseException", fmt.Sprintf(format, args...))
}

func invalid(format string, args ...any) error {
	return api.Refuse("InvalidParameterException", format, args...)
}

// row is one element of an EKS list, with the key that orders it.
type row struct {
	key   string
	value any
}

// page cuts the rows of a list to maxResults, with a token of the next ones.
func page(in *api.Call, list string, rows []row) (any, error) {
	most := 100
	if requested := in.Query.Get("maxResults"); requested != "" {
		n, err := strconv.Atoi(requested)
		if err != nil || n < 1 || n > 100 {
			return nil, invalid("maxResults '%s' is not between 1 and 100.", requested)
		}
		most = n
	}
	after, err := in.After(in.Query.Get("nextToken"))
	if err != nil {
		return nil, invalid("nextToken '%s' is not one that %s gave.", in.Query.Get("nextToken"), in.Op)
	}
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.key, b.key) })
	listed, response, last := []any{}, map[string]any{}, ""
	for _, r := range rows {
		if r.key <= after {
			continue
		}
		if len(listed) == most {
			response["nextToken"] = in.Token(last)
			break
		}
		listed, last = append(listed, r.value), r.key
	}
	response[list] = listed
	return response, nil
}

// checkTags checks the tags of a request.
func checkTags(tags map[string]string) (map[string]string, error) {
	out, problem := api.AddTags(nil, tags)
	if problem != "" {
		return nil, invalid("%s", problem)
	}
	return out, nil
}

// asJSON writes what an update was to change, as it is shown.
func asJSON(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return "" // strings, numbers and lists only: it cannot fail
	}
	return string(out)
}
