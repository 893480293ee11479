package missingkind_test

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/internal/missingkind"
)

func TestOnlyAMissingKindIsIgnored(t *testing.T) {
	pools := schema.GroupResource{Group: "karpenter.sh", Resource: "nodepools"}
	noMatch := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: pools.Group, Kind: "NodePool"}, SearchedVersions: []string{"v1"}}
	for name, tt := range map[string]struct {
		err     error
		missing bool
	}{
		"no error":                                   {nil, false},
		"a RESTMapper without the kind":              {noMatch, true},
		"the same with what was done":                {fmt.Errorf("listing NodePools: %w", noMatch), true},
		"an API server without it":                   {apierrors.NewNotFound(pools, ""), true},
		"one that does not permit the request":       {apierrors.NewForbidden(pools, "", nil), false},
		"one that cannot be reached":                 {errors.New("connection refused"), false},
		"one that reports something else as missing": {errors.New("not found"), false},
	} {
		t.Run(name, func(t *testing.T) {
			want := tt.err
			if tt.missing {
				want = nil
			}
			if got := missingkind.Ignore(tt.err); missingkind.Is(tt.err) != tt.missing || !errors.Is(got, want) {
				t.Errorf("missing: %t, ignored: %v", missingkind.Is(tt.err), got)
			}
		})
	}
}
