// Package published keeps what the controller has read of AWS in ConfigMaps, for commands that run without AWS
// credentials, as in CI: the prices and offerings of the region, which AWS publishes to everybody, in one; and the capacity
// reservations of EC2NodeClasses, which are the account's own, in another, so that who may read the one may not
// have to read the other.
//
// A ConfigMap has at most 900 KiB, and is compressed; a larger one is not written. It has nothing that is
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
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/pricelist"
)

const (
	// Name is that of the ConfigMap with the prices and offerings, in the namespace of the controller.
	Name = "poolwright-price-list"
	// ReservationsName is that of the one with the capacity reservations.
	ReservationsName = "poolwright-capacity-reservations"
)

const (
	// pricesKey and reservationsKey are the only key of each.
	pricesKey       = "price-list.json.gz"
	reservationsKey = "capacity-reservations.json.gz"
	// maxSize is how many bytes a ConfigMap has at most, maxContent how many it may be decompressed to, and maxManifest
	// how many a manifest of both may have.
	maxSize     = 900 << 10
	maxContent  = 16 << 20
	maxManifest = 4 << 20
)

// Names are those of both ConfigMaps.
func Names() []string { return []string{Name, ReservationsName} }

// ErrAbsent is returned where there is no such ConfigMap.
var ErrAbsent = errors.New("no controller has published a price list")

// ErrForeign is returned where the ConfigMap has not the labels of one that a controller has published.
var ErrForeign = errors.New("it has not the labels of what a controller publishes, and is left as it is: rename it, or delete it")

// Content is what the controller has read of AWS.
type Content struct {
	// Offerings are the prices and offerings of the region.
	Offerings *pricelist.List `json:"offerings,omitempty"`
	// CapacityReservations are those of each EC2NodeClass that selects any, by its name.
	CapacityReservations map[string][]Reservation `json:"capacityReservations,omitempty"`
}

// Reservation is a capacity reservation in the status of an EC2NodeClass.
type Reservation struct {
	awsv1.CapacityReservation
	// Nodes is how many NodeClaims are in it.
	Nodes int `json:"nodes"`
}

// labels are those of the ConfigMap of a name.
func labels(name string) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "poolwright", "app.kubernetes.io/component": strings.TrimPrefix(name, "poolwright-")}
}

// IsPublished reports whether a ConfigMap has one of the names, and the labels of what a controller has published.
func IsPublished(c *corev1.ConfigMap) bool {
	for key, value := range labels(c.Name) {
		if c.Labels[key] != value {
			return false
		}
	}
	return slices.Contains(Names(), c.Name)
}

// ConfigMap is that of the prices and offerings, in a namespace; it has no capacity reservation, and nothing of what EC2 refused, which
// counts for minutes only. It is an error where it is too large.
func (c Content) ConfigMap(namespace string) (*corev1.ConfigMap, error) {
	return encode(Content{Offerings: withoutRefused(c.Offerings)}, namespace, Name, pricesKey)
}

// withoutRefused is a list without what EC2 refused.
func withoutRefused(l *pricelist.List) *pricelist.List {
	if l == nil {
		return nil
	}
	out := *l
	out.Refused = nil
	return &out
}

// ReservationsConfigMap is that of the capacity reservations, in a namespace. It is an error where it is too large.
func (c Content) ReservationsConfigMap(namespace string) (*corev1.ConfigMap, error) {
	return encode(Content{CapacityReservations: c.CapacityReservations}, namespace, ReservationsName, reservationsKey)
}

func encode(c Content, namespace, name, key string) (*corev1.ConfigMap, error) {
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	// A buffer takes everything, and the content is plain values, which always marshal.
	if err := errors.Join(json.NewEncoder(w).Encode(c), w.Close()); err != nil {
		return nil, fmt.Errorf("encoding ConfigMap %s: %w", name, err)
	}
	if buffer.Len() > maxSize {
		return nil, fmt.Errorf("encoding ConfigMap %s: its %d bytes are more than the %d of a ConfigMap", name, buffer.Len(), maxSize)
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels(name)},
		BinaryData: map[string][]byte{key: buffer.Bytes()},
	}, nil
}

// decode is what the key of a ConfigMap has.
func decode(c *corev1.ConfigMap, key string) (Content, error) {
	data, ok := c.BinaryData[key]
	if !ok {
		return Content{}, fmt.Errorf("ConfigMap %q has no binaryData[%s]: print the whole of it, with kubectl get configmap %s -o yaml", c.Name, key, Name)
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return Content{}, err
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxContent+1))
	if err != nil {
		return Content{}, err
	}
	if len(plain) > maxContent {
		return Content{}, fmt.Errorf("it has more than %d bytes", maxContent)
	}
	var out Content
	err = json.Unmarshal(plain, &out)
	return out, err
}

// Of has the prices and offerings of a ConfigMap. One without a list that can be read is an error.
func Of(c *corev1.ConfigMap) (Content, error) {
	out, err := decode(c, pricesKey)
	switch {
	case err != nil:
	case out.Offerings == nil:
		err = errors.New("it has no offerings")
	default:
		err = check(out.Offerings)
	}
	if err != nil {
		return Content{}, fmt.Errorf("reading the price list: %w", err)
	}
	return Content{Offerings: withoutRefused(out.Offerings)}, nil
}

// reservationsOf are the capacity reservations of a ConfigMap.
func reservationsOf(c *corev1.ConfigMap) (map[string][]Reservation, error) {
	out, err := decode(c, reservationsKey)
	if err != nil {
		return nil, fmt.Errorf("reading the capacity reservations: %w", err)
	}
	return out.CapacityReservations, nil
}

// Read reads the prices and offerings from a namespace. Where there are none, errors.Is(err, [ErrAbsent]) is true.
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

// ReadReservations reads the capacity reservations from a namespace; none where a controller publishes none.
func ReadReservations(ctx context.Context, from client.Reader, namespace string) (map[string][]Reservation, error) {
	var found corev1.ConfigMap
	switch err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ReservationsName}, &found); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, ReservationsName, err)
	}
	return reservationsOf(&found)
}

// ReadManifest reads them from a manifest in YAML or JSON, as kubectl get -o yaml prints the ConfigMap with the
// prices, or a List with both.
func ReadManifest(r io.Reader) (Content, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return Content{}, fmt.Errorf("reading the price list: %w", err)
	}
	if len(text) > maxManifest {
		return Content{}, fmt.Errorf("reading the price list: its manifest has more than %d bytes", maxManifest)
	}
	var manifest struct {
		corev1.ConfigMap
		Items []corev1.ConfigMap `json:"items"`
	}
	if err := yaml.Unmarshal(text, &manifest); err != nil {
		return Content{}, fmt.Errorf("reading the price list: %w", err)
	}
	prices, reservations := &manifest.ConfigMap, map[string][]Reservation(nil)
	for i := range manifest.Items {
		switch c := &manifest.Items[i]; c.Name {
		case Name:
			prices = c
		case ReservationsName:
			if reservations, err = reservationsOf(c); err != nil {
				return Content{}, err
			}
		}
	}
	out, err := Of(prices)
	if err != nil {
		return Content{}, err
	}
	out.CapacityReservations = reservations
	return out, nil
}
