package supportbundle

import (
	"bytes"
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/installation"
)

// kind is one of which objects are collected.
type kind struct {
	file    string
	gvk     schema.GroupVersionKind
	options []client.ListOption
}

// kinds are all. Neither Secrets nor ConfigMaps may be among them.
func kinds(namespace string) []kind {
	here := client.InNamespace(namespace)
	controller := client.MatchingLabels{"app.kubernetes.io/name": installation.Deployment}
	return []kind{
		{"syncs", schema.GroupVersionKind{Group: "poolwright.dev", Version: "v1alpha1", Kind: "Sync"}, nil},
		{"clusters", schema.GroupVersionKind{Group: "poolwright.dev", Version: "v1alpha1", Kind: "Cluster"}, nil},
		{"deviceplugins", schema.GroupVersionKind{Group: "poolwright.dev", Version: "v1alpha1", Kind: "DevicePlugin"}, nil},
		{"deployments", schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, []client.ListOption{here, controller}},
		{"pods", schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, []client.ListOption{here, controller}},
		{"leases", schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}, []client.ListOption{here}},
		{"events", schema.GroupVersionKind{Version: "v1", Kind: "Event"}, []client.ListOption{here}},
		{"nodepools", schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}, nil},
		{"nodeclaims", schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}, nil},
		{"ec2nodeclasses", schema.GroupVersionKind{Group: "karpenter.k8s.aws", Version: "v1", Kind: "EC2NodeClass"}, nil},
		{"nodes", schema.GroupVersionKind{Version: "v1", Kind: "Node"}, nil},
	}
}

// bundleReader reads what a bundle consists of.
type bundleReader struct {
	Request
	// pods are the controller's, once objects has read them.
	pods []unstructured.Unstructured
	// failures are what could not be read, and why.
	failures []string
}

// collected are the objects of a kind.
type collected struct {
	file    string
	objects []map[string]any
	// more is true where the cluster has further ones.
	more bool
}

// objects reads all kinds.
func (c *bundleReader) objects(ctx context.Context) []collected {
	var out []collected
	for _, k := range kinds(c.Namespace) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(k.gvk)
		bounded, cancel := context.WithTimeout(ctx, c.Timeout)
		err := c.Kube.List(bounded, list, append([]client.ListOption{client.Limit(objectsOfAKind)}, k.options...)...)
		cancel()
		if err != nil {
			c.failures = append(c.failures, fmt.Sprintf("%s: %v", k.file, err))
			continue
		}
		if k.file == "pods" {
			c.pods = list.Items
		}
		of := collected{file: k.file, more: list.GetContinue() != ""}
		for _, item := range list.Items {
			of.objects = append(of.objects, item.Object)
		}
		out = append(out, of)
	}
	return out
}

// logs reads the ends of the logs of the controller's pods, and of what ran in them before.
func (c *bundleReader) logs(ctx context.Context) []archived {
	var out []archived
	for i := range c.pods {
		pod := c.pods[i].GetName()
		for _, before := range []bool{false, true} {
			if before && !restarted(&c.pods[i]) {
				continue
			}
			name := "logs/" + pod + ".log"
			if before {
				name = "logs/" + pod + ".previous.log"
			}
			content, err := c.log(ctx, pod, before)
			if err != nil {
				c.failures = append(c.failures, fmt.Sprintf("%s: %v", name, err))
				continue
			}
			out = append(out, archived{name, content})
		}
	}
	return out
}

func restarted(pod *unstructured.Unstructured) bool {
	containers, _, err := unstructured.NestedSlice(pod.Object, "status", "containerStatuses")
	if err != nil {
		return false
	}
	for _, container := range containers {
		status, is := container.(map[string]any)
		if count, _, err := unstructured.NestedInt64(status, "restartCount"); is && err == nil && count > 0 {
			return true
		}
	}
	return false
}

func (c *bundleReader) log(ctx context.Context, pod string, before bool) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	lines, size := int64(logLines), int64(logBytes)
	stream, err := c.Logs(ctx, c.Namespace, pod, &corev1.PodLogOptions{
		Container: installation.Deployment, Previous: before, Timestamps: true, TailLines: &lines, LimitBytes: &size,
	})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	content, err := io.ReadAll(io.LimitReader(stream, logBytes))
	if err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	if len(content) == logBytes {
		// Of a secret that is cut, the rest would not be masked.
		content = content[:bytes.LastIndexByte(content, '\n')+1]
	}
	return content, nil
}

// PodLogs reads logs through a connection.
func PodLogs(cfg *rest.Config) (LogReader, error) {
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", cfg.Host, err)
	}
	return func(ctx context.Context, namespace, pod string, options *corev1.PodLogOptions) (io.ReadCloser, error) {
		return clients.CoreV1().Pods(namespace).GetLogs(pod, options).Stream(ctx)
	}, nil
}
