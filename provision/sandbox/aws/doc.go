// Package aws emulates Amazon Web Services at the wire, as far as a Kubernetes
// node provisioner and what it stands on use them: EC2, IAM, STS, SSM, EKS, SQS,
// EventBridge, CloudWatch Logs, Service Quotas, Pricing and ARC zonal shift. It is one
// http.Handler, so the real AWS SDK sends its requests there when AWS_ENDPOINT_URL
// names its server; encoding, signing, retries, pagination and errors are then the real
// ones.
//
// It keeps one account in one region with one EKS cluster, its node groups,
// add-ons and entries, roles and policies, a VPC of three zones, machine
// images, prices and queues. What was just made can stay invisible for a while, as
// in AWS. Instances live through their states on an injected clock, cost what the
// catalogue has, and can be refused, interrupted, impaired or lost; every call can be
// made to fail, throttle, wait or return an old state.
//
// It refuses what it does not implement: an unknown operation, parameter, filter or
// field is an error that names it, never a success without effect. It checks no
// signature, only the scope in it: whoever reaches the handler is the account, unless
// his access key is restricted to policies. Each call records what it needs of IAM, so
// that policies can be tried on a whole run afterwards. It is for tests and sandboxes
// on loopback.
//
// Not emulated, and refused by name: SQS's older query protocol, EC2 by GET, Fault
// Injection Service, starting a stopped instance, taking an interruptible
// allocation back, labels of parameters, copies of images between regions, IPv6,
// local zones and Windows.
//
// This package is the front: it reads requests, injects faults, checks parameters
// and permissions, and records every call. Each service is a package below internal
// with a table of its operations and of what they require of IAM. Start with New and
// Cloud; service.go lists the services, and state.go has what each needs of others.
package aws
