// Package published keeps what the controller has read of AWS in a ConfigMap, for commands that run without AWS
// credentials, as in CI: the prices and offerings of the region, and the capacity reservations of EC2NodeClasses.
//
// The ConfigMap has at most 900 KiB, and is compressed; a larger one is not written. It has nothing that is
// secret, and nothing reads it to decide what is applied or launched. Start reading at [Content].
package published

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/pricelist"
)

// Name is the ConfigMap's, in the namespace of the controller.
const Name = "poolwright-price-list"

const (
	// dataKey is its only key.
	dataKey = "price-list.json.gz"
	// maxSize is how many bytes it has at most, maxContent how many it may be decompressed to, and maxManifest how many a
	// manifest of it may have.
	maxSize     = 900 << 10
	maxContent  = 16 << 20
	maxManifest = 2 << 20
)

// ErrAbsent is returned where there is no such ConfigMap.
var ErrAbsent = errors.New("no controller has published a price list")

// ErrForeign is returned where the ConfigMap has not the labels of one that a controller has published.
var ErrForeign = errors.New("it has not the labels of a published price list, and is left as it is: rename it, or delete it")

// Content is what the controller has read of AWS.
type Content struct {
	// Offerings are the prices and offerings of the region.
	Offerings *pricelist.List `json:"offerings"`
	// CapacityReservations are those of each EC2NodeClass that selects any, by its name.
	CapacityReservations map[string][]Reservation `json:"capacityReservations,omitempty"`
}

// Reservation is a capacity reservation in the status of an EC2NodeClass.
type Reservation struct {
	awsv1.CapacityReservation
	// Nodes is how many NodeClaims are in it.
	Nodes int `json:"nodes"`
}

// labels are those of the ConfigMap.
func labels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "poolwright", "app.kubernetes.io/component": "price-list"}
}

// IsPriceList reports whether a ConfigMap has the labels of one that a controller has published.
func IsPriceList(c *corev1.ConfigMap) bool {
	for key, value := range labels() {
		if c.Labels[key] != value {
			return false
		}
	}
	return true
}

// ConfigMap is the content's, in a namespace. It is an error where it is too large.
func (c Content) ConfigMap(namespace string) (*corev1.ConfigMap, error) {
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	// A buffer takes everything, and the content is plain values, which always marshal.
	if err := errors.Join(json.NewEncoder(w).Encode(c), w.Close()); err != nil {
		return nil, fmt.Errorf("encoding the price list: %w", err)
	}
	if buffer.Len() > maxSize {
		return nil, fmt.Errorf("encoding the price list: its %d bytes are more than the %d of a ConfigMap", buffer.Len(), maxSize)
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name, Labels: labels()},
		BinaryData: map[string][]byte{dataKey: buffer.Bytes()},
	}, nil
}

// Of is the content of a ConfigMap. One that was not published by a controller is an error.
func Of(c *corev1.ConfigMap) (Content, error) {
	data, ok := c.BinaryData[dataKey]
	if !ok {
		return Content{}, fmt.Errorf("reading the price list: ConfigMap %q has no binaryData[%s]", c.Name, dataKey)
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return Content{}, fmt.Errorf("reading the price list: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxContent+1))
	if err != nil {
		return Content{}, fmt.Errorf("reading the price list: %w", err)
	}
	if len(plain) > maxContent {
		return Content{}, fmt.Errorf("reading the price list: it has more than %d bytes", maxContent)
	}
	var out Content
	if err := json.Unmarshal(plain, &out); err != nil {
		return Content{}, fmt.Errorf("reading the price list: %w", err)
	}
	if out.Offerings == nil {
		return Content{}, errors.New("reading the price list: it has no offerings")
	}
	if err := check(out.Offerings); err != nil {
		return Content{}, fmt.Errorf("reading the price list: %w", err)
	}
	return out, nil
}

// Read reads it from a namespace. Where there is none, errors.Is(err, [ErrAbsent]) is true.
func Read(ctx context.Context, from client.Reader, namespace string) (Content, error) {
	var found corev1.ConfigMap
	err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name}, &found)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return Content{}, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, Name, err)
	case err != nil:
		return Content{}, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, Name, ErrAbsent)
	}
	return Of(&found)
}

// ReadManifest reads it from a manifest in YAML or JSON, as kubectl get -o yaml prints it.
func ReadManifest(r io.Reader) (Content, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return Content{}, fmt.Errorf("reading the price list: %w", err)
	}
	if len(text) > maxManifest {
		return Content{}, fmt.Errorf("reading the price list: its manifest has more than %d bytes", maxManifest)
	}
	var c corev1.ConfigMap
	if err := yaml.Unmarshal(text, &c); err != nil {
		return Content{}, fmt.Errorf("reading the price list: %w", err)
	}
	return Of(&c)
}
