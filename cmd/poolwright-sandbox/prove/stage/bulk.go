package stage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/sandbox/history"
)

// bulk is the namespace of Config.Bulk.
func (s *Stage) bulk() string { return "bulk-" + s.name }

// namespaces are all of the stage.
func (s *Stage) namespaces() []string {
	out := []string{s.System, s.Apps}
	if s.config.Bulk > 0 {
		out = append(out, s.bulk())
	}
	return out
}

// bulkFile is how many objects are in a file.
const bulkFile = 250

// bulkLabel marks the objects, which a namespace does not have by itself.
const bulkLabel = "prove.poolwright.dev/bulk"

// writeBulk writes the files of Config.Bulk into a folder.
func (s *Stage) writeBulk(folder string) error {
	for begin := 0; begin < s.config.Bulk; begin += bulkFile {
		var text strings.Builder
		for i := begin; i < min(begin+bulkFile, s.config.Bulk); i++ {
			fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: bulk-%05d, namespace: %s, labels: {%s: \"true\"}}\ndata: {value: v%d}\n", i, s.bulk(), bulkLabel, i)
		}
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("bulk-%05d.yaml", begin)), []byte(text.String()), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// observeBulk records that objects of Config.Bulk are missing, where they are.
func (s *Stage) observeBulk(ctx context.Context) error {
	if s.config.Bulk == 0 {
		return nil
	}
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}}
	if err := s.config.Admin.List(ctx, list, client.InNamespace(s.bulk()), client.HasLabels{bulkLabel}); err != nil {
		return err
	}
	if len(list.Items) != s.config.Bulk {
		s.Tap.Record(history.Event{Kind: history.Stuck, Reason: fmt.Sprintf("%d of %d objects are there in %s", len(list.Items), s.config.Bulk, s.bulk())})
	}
	return nil
}
