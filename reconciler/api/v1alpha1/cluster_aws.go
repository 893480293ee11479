package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AWSDeletionPolicy is what happens to AWS resources that Poolwright created
// when their part leaves the repository.
// +kubebuilder:validation:Enum=Orphan;Delete
type AWSDeletionPolicy string

// The values of AWSDeletionPolicy.
const (
	AWSDeletionPolicyOrphan AWSDeletionPolicy = "Orphan"
	AWSDeletionPolicyDelete AWSDeletionPolicy = "Delete"
)

// ManagementPolicy is how the AWS resources of one field of the spec are adopted and deleted.
type ManagementPolicy struct {
	// Adopt lets Poolwright change resources that exist and were not created by it.
	// Default false: these are compared and reported only.
	// +optional
	Adopt bool `json:"adopt,omitempty"`
	// DeletionPolicy is what happens to the resources that Poolwright created for
	// this part when the part leaves the repository: Orphan (default) leaves
	// them, Delete deletes them. What was adopted is never deleted.
	// +optional
	DeletionPolicy AWSDeletionPolicy `json:"deletionPolicy,omitempty"`
}

// Discovery is the tag by which EC2NodeClasses find subnets and security
// groups.
// +kubebuilder:validation:XValidation:rule="!(has(self.adopt) && self.adopt && has(self.deletionPolicy) && self.deletionPolicy == 'Delete')",message="adopt and deletionPolicy: Delete exclude each other: what was adopted is never deleted"
type Discovery struct {
	ManagementPolicy `json:",inline"`
	// Key is the tag's key. Default karpenter.sh/discovery.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Key string `json:"key,omitempty"`
	// Value is the tag's value. Default: the cluster's name.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Value string `json:"value,omitempty"`
	// Subnets are the ids of the subnets that carry the tag. One without free
	// addresses is reported.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:Pattern="^subnet-[0-9a-f]{8,17}$"
	// +listType=set
	// +optional
	Subnets []string `json:"subnets,omitempty"`
	// SecurityGroups are the ids of the security groups that carry the tag.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:Pattern="^sg-[0-9a-f]{8,17}$"
	// +listType=set
	// +optional
	SecurityGroups []string `json:"securityGroups,omitempty"`
}

// ManagedPolicyName is the name of an AWS managed policy that a node role may have:
// the allow-list of least privilege.
// +kubebuilder:validation:Enum=AmazonEKSWorkerNodePolicy;AmazonEKSWorkerNodeMinimalPolicy;AmazonEKS_CNI_Policy;AmazonEC2ContainerRegistryReadOnly;AmazonEC2ContainerRegistryPullOnly;AmazonSSMManagedInstanceCore;AmazonEBSCSIDriverPolicy;CloudWatchAgentServerPolicy
type ManagedPolicyName string

// NodeRole is the IAM role of the nodes that Karpenter launches, with its EKS
// access entry of type EC2_LINUX, which lets them join.
// +kubebuilder:validation:XValidation:rule="!(has(self.adopt) && self.adopt && has(self.deletionPolicy) && self.deletionPolicy == 'Delete')",message="adopt and deletionPolicy: Delete exclude each other: what was adopted is never deleted"
type NodeRole struct {
	ManagementPolicy `json:",inline"`
	// Name is the role's name, as EC2NodeClasses quote it in spec.role.
	// +kubebuilder:validation:Pattern="^[A-Za-z0-9+=,.@_-]{1,64}$"
	Name string `json:"name"`
	// Policies are the AWS managed policies that are attached, no more and no
	// less. Default: AmazonEKSWorkerNodePolicy, AmazonEKS_CNI_Policy,
	// AmazonEC2ContainerRegistryPullOnly, AmazonSSMManagedInstanceCore.
	// +kubebuilder:validation:MaxItems=8
	// +listType=set
	// +optional
	Policies []ManagedPolicyName `json:"policies,omitempty"`
	// PermissionsBoundary is the name of the customer managed policy that
	// bounds the role. Default poolwright-boundary-NAME-REGION of the cluster,
	// which bootstrap creates. An existing role that is adopted keeps its own boundary
	// unless this is set.
	// +kubebuilder:validation:Pattern="^[A-Za-z0-9+=,.@_-]{1,128}$"
	// +optional
	PermissionsBoundary string `json:"permissionsBoundary,omitempty"`
	// InstanceProfile is the name of an instance profile that contains the role,
	// for EC2NodeClasses with spec.instanceProfile. Default: none; Karpenter
	// makes its own for spec.role.
	// +kubebuilder:validation:Pattern="^[A-Za-z0-9+=,.@_-]{1,128}$"
	// +optional
	InstanceProfile string `json:"instanceProfile,omitempty"`
}

// InterruptionQueue is the SQS queue, and the EventBridge rules that fill it,
// by which nodes are drained before AWS interrupts them.
// +kubebuilder:validation:XValidation:rule="!(has(self.adopt) && self.adopt && has(self.deletionPolicy) && self.deletionPolicy == 'Delete')",message="adopt and deletionPolicy: Delete exclude each other: what was adopted is never deleted"
type InterruptionQueue struct {
	ManagementPolicy `json:",inline"`
	// Name is the queue's name. Default: the cluster's name. The embedded
	// engine reads it unless spec.engine.interruptionQueue names another.
	// +kubebuilder:validation:Pattern="^[A-Za-z0-9_-]{1,80}$"
	// +optional
	Name string `json:"name,omitempty"`
	// Retention is how long a message is kept. Default 5m; 1m to 336h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern="^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('336h')",message="retention must be between 1m and 336h"
	// +optional
	Retention *metav1.Duration `json:"retention,omitempty"`
	// KMSKey is the id, alias or ARN of the KMS key that encrypts messages; its
	// key policy must let EventBridge use it. Default: keys that SQS manages.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	KMSKey string `json:"kmsKey,omitempty"`
}

// LogType is a type of EKS control-plane log.
// +kubebuilder:validation:Enum=api;audit;authenticator;controllerManager;scheduler
type LogType string

// Logging is what the EKS control plane writes to CloudWatch Logs. The cluster
// was not made by Poolwright: without adopt, logging is only reported.
type Logging struct {
	// Adopt lets Poolwright change the cluster's logging and the log group's
	// retention. Default false.
	// +optional
	Adopt bool `json:"adopt,omitempty"`
	// Types are the log types that are on; all others are off.
	// +kubebuilder:validation:MaxItems=5
	// +listType=set
	// +optional
	Types []LogType `json:"types,omitempty"`
	// RetentionDays is how long the log group keeps what is written, one of
	// the periods that CloudWatch offers. Default: not compared.
	// +kubebuilder:validation:Enum=1;3;5;7;14;30;60;90;120;150;180;365;400;545;731;1096;1827;2192;2557;2922;3288;3653
	// +optional
	RetentionDays int32 `json:"retentionDays,omitempty"`
}

// ManagedNodeGroup is an EKS managed node group, such as the one on which
// Poolwright itself runs. Poolwright never makes or deletes one.
type ManagedNodeGroup struct {
	// Name is the node group's name.
	// +kubebuilder:validation:Pattern="^[0-9A-Za-z][A-Za-z0-9_-]{0,62}$"
	Name string `json:"name"`
	// Adopt lets Poolwright change the group's sizes, labels and taints.
	// Default false: they are compared and reported only.
	// +optional
	Adopt bool `json:"adopt,omitempty"`
	// MinSize, DesiredSize and MaxSize are numbers of nodes. Each is compared
	// only where it is set; leave DesiredSize out where an autoscaler sets it.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinSize *int32 `json:"minSize,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +optional
	DesiredSize *int32 `json:"desiredSize,omitempty"`
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxSize *int32 `json:"maxSize,omitempty"`
	// Labels are the nodes' labels, no more and no less. Default: not compared.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are the nodes' taints, no more and no less. Default: not compared.
	// +kubebuilder:validation:MaxItems=50
	// +optional
	Taints *[]NodeGroupTaint `json:"taints,omitempty"`
	// InstanceTypes, DiskSize (GiB) and CapacityType cannot be changed in
	// place: they are compared where they are set, and reported.
	// +kubebuilder:validation:MaxItems=20
	// +optional
	InstanceTypes []string `json:"instanceTypes,omitempty"`
	// +kubebuilder:validation:Minimum=1
	// +optional
	DiskSize *int32 `json:"diskSize,omitempty"`
	// +kubebuilder:validation:Enum=ON_DEMAND;SPOT;CAPACITY_BLOCK
	// +optional
	CapacityType string `json:"capacityType,omitempty"`
}

// NodeGroupTaint is a taint as Kubernetes writes it.
type NodeGroupTaint struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Key string `json:"key"`
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Value string `json:"value,omitempty"`
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect string `json:"effect"`
}

// Addon is an EKS add-on. It is compared and reported, never changed.
type Addon struct {
	// Name is the add-on's name, such as vpc-cni.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	Name string `json:"name"`
	// Version is the version that is installed, such as v1.19.0-eksbuild.1.
	// Default: any.
	// +kubebuilder:validation:MaxLength=100
	// +optional
	Version string `json:"version,omitempty"`
}

// IdentityKind is how the controller's pods get their role.
// +kubebuilder:validation:Enum=PodIdentity;IRSA
type IdentityKind string

// The values of IdentityKind.
const (
	// IdentityPod is EKS Pod Identity: an association on the cluster.
	IdentityPod IdentityKind = "PodIdentity"
	// IdentityIRSA is the cluster's OIDC provider and an annotation on the
	// service account.
	IdentityIRSA IdentityKind = "IRSA"
)

// ControllerRole is the IAM role of Poolwright itself. `poolwright bootstrap`
// writes it; the running controller only compares it.
type ControllerRole struct {
	// Adopt lets bootstrap change a role and policies that exist and were not
	// made by it. Default false. What the role is made of is never deleted by
	// Poolwright, which needs it to run.
	// +optional
	Adopt bool `json:"adopt,omitempty"`
	// Name is the role's name. Default poolwright-NAME-REGION of the cluster, the
	// NAME cut where that is too long for IAM.
	// +kubebuilder:validation:Pattern="^[A-Za-z0-9+=,.@_-]{1,64}$"
	// +optional
	Name string `json:"name,omitempty"`
	// Identity is PodIdentity (default) or IRSA.
	// +optional
	Identity IdentityKind `json:"identity,omitempty"`
	// Namespace and ServiceAccount are of the pods that get the role. Default
	// poolwright-system and poolwright.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ServiceAccount string `json:"serviceAccount,omitempty"`
}

// AWSStatus is what was last found in AWS.
type AWSStatus struct {
	// ObservedAt is when AWS was last read.
	// +optional
	ObservedAt metav1.Time `json:"observedAt,omitzero"`
	// Differences are the resources that are not as declared, sorted, at most 50.
	// +listType=atomic
	// +optional
	Differences []Difference `json:"differences,omitempty"`
	// Unknown are the resources that could not be read, sorted, at most 50.
	// +listType=atomic
	// +optional
	Unknown []UnknownResource `json:"unknown,omitempty"`
	// Quotas are the vCPU quotas of the instance families of the pools, and their
	// use.
	// +listType=atomic
	// +optional
	Quotas []Quota `json:"quotas,omitempty"`
}

// Difference is one resource that is not as declared.
type Difference struct {
	// Resource names it as reports do: Queue.sqs/eu-west-1/my-cluster.
	Resource string `json:"resource"`
	// Message is what differs, and who can change it.
	Message string `json:"message"`
}

// UnknownResource is a resource that could not be read.
type UnknownResource struct {
	// Resource names it as reports do.
	Resource string `json:"resource"`
	// Reason is why, with the action that is missing where it was denied.
	Reason string `json:"reason"`
	// Since when it has been unknown without interruption.
	Since metav1.Time `json:"since"`
}

// Quota is one vCPU quota of EC2.
type Quota struct {
	// Name is the quota's name in Service Quotas.
	Name string `json:"name"`
	// LimitVCPUs and UsedVCPUs are numbers of vCPUs in the region and account.
	LimitVCPUs int64 `json:"limitVCPUs"`
	UsedVCPUs  int64 `json:"usedVCPUs"`
}
