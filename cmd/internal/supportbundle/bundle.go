// Package supportbundle writes an archive by which somebody else can find out why an installation
// does not work: the checks, the objects that the controller works on, and its logs.
//
// It refuses to read a Secret or a ConfigMap, and to write what may be a secret: values of
// environment variables and annotations that are not known to be none, values of variables, and
// what plans mask. Start reading at Write.
package supportbundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/check"
)

// Request is what to collect.
type Request struct {
	// Kube reads the cluster.
	Kube client.Reader
	// Logs reads the end of a container's log.
	Logs LogReader
	// Checks is what was checked.
	Checks check.Report
	// Namespace is the controller's.
	Namespace string
	// Timeout bounds the reading of each kind and of each log.
	Timeout time.Duration
	// Now is the time of the files.
	Now time.Time
}

// LogReader reads the log of a container of a pod.
type LogReader func(ctx context.Context, namespace, pod string, options *corev1.PodLogOptions) (io.ReadCloser, error)

const (
	// folder is the archive's.
	folder = "poolwright-support-bundle/"
	// objectsOfAKind is how many objects of a kind it has at most.
	objectsOfAKind = 500
	// logLines and logBytes are how much it has at most of a container's log.
	logLines = 2000
	logBytes = 2 << 20
)

// archived is a file of the archive.
type archived struct {
	name    string
	content []byte
}

// Write writes the archive, a tar file that is compressed with gzip. What could not be read is
// listed in it, and is no error.
func Write(ctx context.Context, w io.Writer, req Request) error {
	c := &bundleReader{Request: req}
	objects := c.objects(ctx)
	logs := c.logs(ctx)
	files, err := masked(req.Checks, objects, logs, c.failures)
	if err != nil {
		return err
	}
	return archive(w, files, req.Now)
}

func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encoding the support bundle: %w", err)
	}
	return out.Bytes(), nil
}

func archive(w io.Writer, files []archived, at time.Time) error {
	compressed := gzip.NewWriter(w)
	out := tar.NewWriter(compressed)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: folder + f.name, Mode: 0o600, Size: int64(len(f.content)), ModTime: at}
		if err := out.WriteHeader(header); err != nil {
			return fmt.Errorf("writing %s: %w", f.name, err)
		}
		if _, err := out.Write(f.content); err != nil {
			return fmt.Errorf("writing %s: %w", f.name, err)
		}
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("writing the support bundle: %w", err)
	}
	if err := compressed.Close(); err != nil {
		return fmt.Errorf("writing the support bundle: %w", err)
	}
	return nil
}
