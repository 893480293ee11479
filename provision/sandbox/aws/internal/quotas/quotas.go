// Package quotas is Service Quotas, with those of EC2.
package quotas

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Service is Service Quotas in one account.
type Service struct {
	account *api.Account
	values  map[string]float64 // of EC2's quotas in this account, by name
}

// New has AWS's values, and those given by name over them.
func New(account *api.Account, given map[string]float64) *Service {
	svc := &Service{account: account, values: map[string]float64{}}
	for _, q := range ec2Quotas() {
		svc.values[q.name] = q.value
	}
	maps.Copy(svc.values, given)
	return svc
}

// Clone copies deep enough that nothing later shows in it.
func (svc *Service) Clone() *Service {
	return &Service{account: svc.account, values: maps.Clone(svc.values)}
}

// Table is what Service Quotas can do here.
func (svc *Service) Table() api.Table {
	operations := svc.operations()
	authorizations := map[string]api.Authorization{}
	for op := range operations {
		authorizations[op] = api.Anything("servicequotas:" + op)
	}
	return api.Table{Operations: operations, Authorizations: authorizations, Required: map[string][]string{
		"GetServiceQuota":   {"ServiceCode", "QuotaCode"},
		"ListServiceQuotas": {"ServiceCode"}, "ListAWSDefaultServiceQuotas": {"ServiceCode"},
	}}
}

// plenty is a vCPU quota that no test reaches without the intent.
const plenty = 100000

// quota is one of EC2's in Service Quotas. Those with a class count vCPUs of
// living instances.
type quota struct {
	name, code string
	value      float64
	class      string // of the metric of its use, "G/OnDemand"
}

// ec2Quotas are those of instances, by their real names and codes, and two
// others: a reader must pick by name.
func ec2Quotas() []quota {
	return []quota{
		{"Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "L-1216C47A", plenty, "Standard/OnDemand"},
		{"Running On-Demand G and VT instances", "L-DB2E81BA", plenty, "G/OnDemand"},
		{"Running On-Demand P instances", "L-417A185B", plenty, "P/OnDemand"},
		{"Running On-Demand Inf instances", "L-1945791B", plenty, "Inf/OnDemand"},
		{"Running On-Demand Trn instances", "L-2C3B7624", plenty, "Trn/OnDemand"},
		{"Running On-Demand DL instances", "L-6E869C2A", plenty, "DL/OnDemand"},
		{"Running On-Demand F instances", "L-74FC7D96", plenty, "F/OnDemand"},
		{"Running On-Demand X instances", "L-7295265B", plenty, "X/OnDemand"},
		{"Running On-Demand HPC instances", "L-F7808C92", plenty, "HPC/OnDemand"},
		{"Running On-Demand High Memory instances", "L-43DA4232", plenty, "HighMem/OnDemand"},
		{"All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", "L-34B43A08", plenty, "Standard/Spot"},
		{"All G and VT Spot Instance Requests", "L-3819A6DF", plenty, "G/Spot"},
		{"All P4, P3 and P2 Spot Instance Requests", "L-7212CCBC", plenty, "P/Spot"},
		{"All P5 Spot Instance Requests", "L-C4BD4855", plenty, "P5/Spot"},
		{"All Inf Spot Instance Requests", "L-B5D1601B", plenty, "Inf/Spot"},
		{"All Trn Spot Instance Requests", "L-6B0D517C", plenty, "Trn/Spot"},
		{"All DL Spot Instance Requests", "L-85EED4F7", plenty, "DL/Spot"},
		{"All F Spot Instance Requests", "L-88CF9481", plenty, "F/Spot"},
		{"All X Spot Instance Requests", "L-E3A00192", plenty, "X/Spot"},
		{"EC2-VPC Elastic IPs", "L-0263D0A3", 5, ""},
		{"Running Dedicated p4d Hosts", "L-86A789C3", 0, ""},
	}
}

// Class is the class of the quota that an instance counts against; ""
// stands for none: capacity blocks are paid for and count against nothing.
func Class(instanceType, capacityType string) string {
	option := "OnDemand"
	switch capacityType {
	case "spot":
		option = "Spot"
	case "capacity-block":
		return ""
	}
	class := familyOf(instanceType)
	if class == "" {
		return ""
	}
	if class == "P" && option == "Spot" && !slices.Contains([]string{"p2", "p3", "p4"}, instanceType[:min(2, len(instanceType))]) {
		class = "P5" // the quota that came with them
	}
	return class + "/" + option
}

// familyOf is the class of quotas of an instance type: by its letters, most of
// them by the first.
func familyOf(instanceType string) string {
	letters := instanceType[:len(instanceType)-len(strings.TrimLeft(instanceType, "abcdefghijklmnopqrstuvwxyz"))]
	switch letters {
	case "inf":
		return "Inf"
	case "trn":
		return "Trn"
	case "dl":
		return "DL"
	case "hpc":
		return "HPC"
	case "vt":
		return "G"
	case "u":
		return "HighMem"
	case "mac", "":
		return ""
	}
	switch first := letters[:1]; first {
	case "g", "p", "f", "x":
		return strings.ToUpper(first)
	case "a", "c", "d", "h", "i", "m", "r", "t", "z":
		return "Standard"
	}
	return ""
}

// Exceeds reports whether so many vCPUs of instances of a class are more than
// their quota; "" and classes without a quota have none.
func (svc *Service) Exceeds(class string, vcpus int) bool {
	quotas := ec2Quotas()
	n := slices.IndexFunc(quotas, func(q quota) bool { return q.class == class })
	return class != "" && n >= 0 && float64(vcpus) > svc.value(quotas[n])
}

// Set changes one of EC2's quotas, by its name in Service Quotas, as AWS
// does upon a request; what runs stays.
func (svc *Service) Set(name string, value float64) error {
	if err := Check(name, value); err != nil {
		return err
	}
	svc.values[name] = value
	return nil
}

// Unset takes away the value that EC2's quota of that name has in this
// account: Service Quotas then lists it only among AWS's defaults, as it does
// with quotas of which the account has used nothing yet.
func (svc *Service) Unset(name string) error {
	if err := Check(name, 0); err != nil {
		return err
	}
	delete(svc.values, name)
	return nil
}

// value is what counts: the account's own value, or AWS's.
func (svc *Service) value(q quota) float64 {
	if own, ok := svc.values[q.name]; ok {
		return own
	}
	return q.value
}

// Check refuses a name that none of EC2's quotas has, and a value below zero.
func Check(name string, value float64) error {
	if value < 0 || !slices.ContainsFunc(ec2Quotas(), func(q quota) bool { return q.name == name }) {
		return fmt.Errorf("setting EC2's quota %q to %g: there is none of that name, or it is below zero", name, value)
	}
	return nil
}

func (svc *Service) operations() map[string]api.Operation {
	return map[string]api.Operation{
		"ListServiceQuotas":           {Read: true, Run: svc.listQuotas},
		"ListAWSDefaultServiceQuotas": {Read: true, Run: svc.listDefaultQuotas},
		"GetServiceQuota":             {Read: true, Run: svc.getQuota},
	}
}

func (svc *Service) quotaJSON(q quota, value float64) map[string]any {
	out := map[string]any{
		"ServiceCode": "ec2", "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)", "QuotaArn": svc.account.ARN("servicequotas", "ec2/"+q.code),
		"QuotaCode": q.code, "QuotaName": q.name, "Value": value, "Unit": "None", "Adjustable": true, "GlobalQuota": false,
		"QuotaAppliedAtLevel": "ACCOUNT",
	}
	if q.class != "" {
		out["UsageMetric"] = map[string]any{
			"MetricNamespace": "AWS/Usage", "MetricName": "ResourceCount", "MetricStatisticRecommendation": "Maximum",
			"MetricDimensions": map[string]string{"Class": q.class, "Resource": "vCPU", "Service": "EC2", "Type": "Resource"},
		}
	}
	return out
}

// checkService refuses every service but EC2.
func checkService(code string) error {
	if code != "ec2" {
		return api.Refuse("NoSuchResourceException", "The request failed because the specified service does not exist: %q; the emulator has quotas of ec2.", code)
	}
	return nil
}

// listing is how quotas are requested.
type listing struct {
	ServiceCode, NextToken string
	MaxResults             *int
}

// listQuotas lists those that have a value in this account.
func (svc *Service) listQuotas(in *api.Call) (any, error) {
	var input struct {
		listing
		QuotaCode string
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	return svc.list(in, input.listing, func(q quota) (float64, bool) {
		value, applied := svc.values[q.name]
		return value, applied && (input.QuotaCode == "" || input.QuotaCode == q.code)
	})
}

func (svc *Service) listDefaultQuotas(in *api.Call) (any, error) {
	var input listing
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	return svc.list(in, input, func(q quota) (float64, bool) { return q.value, true })
}

func (svc *Service) list(in *api.Call, input listing, of func(quota) (float64, bool)) (any, error) {
	if err := checkService(input.ServiceCode); err != nil {
		return nil, err
	}
	n := 100
	if input.MaxResults != nil {
		n = *input.MaxResults
	}
	if n < 1 || n > 100 {
		return nil, api.Refuse("IllegalArgumentException", "MaxResults %d is not between 1 and 100.", n)
	}
	byCode, codes := map[string]quota{}, []string{}
	for _, q := range ec2Quotas() {
		if _, has := of(q); has {
			byCode[q.code], codes = q, append(codes, q.code)
		}
	}
	slices.Sort(codes)
	rows, next, err := in.Window(codes, input.NextToken, n)
	if err != nil {
		return nil, api.Refuse("InvalidPaginationTokenException", "%s", err)
	}
	quotas := []map[string]any{}
	for _, code := range rows {
		value, _ := of(byCode[code])
		quotas = append(quotas, svc.quotaJSON(byCode[code], value))
	}
	out := map[string]any{"Quotas": quotas}
	if next != "" {
		out["NextToken"] = next
	}
	return out, nil
}

func (svc *Service) getQuota(in *api.Call) (any, error) {
	var input struct{ ServiceCode, QuotaCode string }
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	if err := checkService(input.ServiceCode); err != nil {
		return nil, err
	}
	for _, q := range ec2Quotas() {
		if value, applied := svc.values[q.name]; applied && q.code == input.QuotaCode {
			return map[string]any{"Quota": svc.quotaJSON(q, value)}, nil
		}
	}
	return nil, api.Refuse("NoSuchResourceException", "The request failed because the specified quota does not exist: %q.", input.QuotaCode)
}
