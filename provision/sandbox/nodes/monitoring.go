package nodes

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SetCondition writes a condition into the status of a machine's Node, as the node monitoring agent of
// EKS does: AcceleratedHardwareReady is False for the reason NvidiaXID79Error where a GPU is no longer
// on the bus. Its times are those of now, except that LastTransitionTime stays while the status does. It is an
// error where the machine has no Node.
func (p *Simulator) SetCondition(ctx context.Context, id string, condition corev1.NodeCondition) error {
	k := p.machine(id)
	if k == nil {
		return fmt.Errorf("setting the condition %s: there is no machine %q", condition.Type, id)
	}
	k.mu.Lock()
	registered := k.node
	k.mu.Unlock()
	if registered == nil {
		return fmt.Errorf("setting the condition %s: machine %q has no Node yet", condition.Type, id)
	}
	client := p.config.Client.CoreV1().Nodes()
	node, err := client.Get(ctx, registered.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("setting the condition %s: %w", condition.Type, err)
	}
	condition.LastHeartbeatTime = second(p.config.Clock.Now())
	condition.LastTransitionTime = condition.LastHeartbeatTime
	for _, c := range node.Status.Conditions {
		if c.Type == condition.Type && c.Status == condition.Status {
			condition.LastTransitionTime = c.LastTransitionTime
		}
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{condition}}})
	if err == nil {
		_, err = client.Patch(ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		return fmt.Errorf("setting the condition %s of Node %s: %w", condition.Type, node.Name, err)
	}
	return nil
}
