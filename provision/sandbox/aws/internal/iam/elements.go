package iam

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

var (
	sidForm       = regexp.MustCompile(`^[0-9A-Za-z]*$`)
	vendorForm    = regexp.MustCompile(`^[0-9A-Za-z-]+$`)
	partitionForm = regexp.MustCompile(`^(aws|aws-cn|aws-us-gov|aws-iso|aws-iso-b|aws-iso-e|aws-iso-f|aws-eusc|\*)$`)
	serviceForm   = regexp.MustCompile(`^(pods\.)?([0-9a-z-]+)(\.[a-z]{2}(-[a-z]+)+-\d)?\.amazonaws\.com(\.cn)?$`)
	awsForm       = regexp.MustCompile(`^(\*|\d{12}|arn:[a-z-]+:(iam|sts)::\d{12}:(root|(role|user|assumed-role|federated-user)/.+))$`)
	federatedForm = regexp.MustCompile(`^(arn:[a-z-]+:iam::\d{12}:(oidc|saml)-provider/.+|cognito-identity\.amazonaws\.com|graph\.facebook\.com|accounts\.google\.com|www\.amazon\.com)$`)
	operatorForm  = regexp.MustCompile(`^(ForAllValues:|ForAnyValue:)?(String(Not)?(Equals|EqualsIgnoreCase|Like)|Numeric(NotEquals|Equals|LessThan|LessThanEquals|GreaterThan|GreaterThanEquals)|` +
		`Date(NotEquals|Equals|LessThan|LessThanEquals|GreaterThan|GreaterThanEquals)|Bool|BinaryEquals|(Not)?IpAddress|Arn(Not)?(Equals|Like))(IfExists)?$|^Null$`)
)

// elements refuses what IAM's grammar does not let an element of a statement
// hold, in either kind of document.
func (s statement) elements() error {
	for _, pair := range [][2]string{{"Action", "NotAction"}, {"Resource", "NotResource"}, {"Principal", "NotPrincipal"}} {
		if s.has(pair[0]) && s.has(pair[1]) {
			return malformed("Syntax errors in policy.")
		}
	}
	for _, name := range []string{"Action", "NotAction", "Resource", "NotResource"} {
		if !s.has(name) {
			continue
		}
		values := stringList(s[name])
		if values == nil {
			return malformed("Syntax errors in policy.")
		}
		if len(values) == 0 {
			return malformed("Policy statement must contain %s.", map[bool]string{true: "actions", false: "resources"}[strings.HasSuffix(name, "Action")])
		}
		check := resourceProblem
		if strings.HasSuffix(name, "Action") {
			check = actionProblem
		}
		for _, v := range values {
			if problem := check(v); problem != "" {
				return malformed("%s", problem)
			}
		}
	}
	return s.conditions()
}

func actionProblem(action string) string {
	vendor, name, found := strings.Cut(action, ":")
	switch {
	case action == "*":
	case !found:
		return "Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc."
	case strings.Contains(name, ":"):
		return "Actions/Condition can contain only one colon."
	case !vendorForm.MatchString(vendor):
		return "Vendor " + vendor + " is not valid"
	}
	return ""
}

func resourceProblem(resource string) string {
	if resource == "*" {
		return ""
	}
	parts := strings.SplitN(resource, ":", 6)
	switch {
	case parts[0] != "arn" || len(parts) == 1:
		return `Resource ` + resource + ` must be in ARN format or "*".`
	case !partitionForm.MatchString(parts[1]):
		return `Partition "` + parts[1] + `" is not valid for resource "` + resource + `".`
	case len(parts) < 3 || parts[2] == "":
		return "Resource vendor must be fully qualified and cannot contain regexes."
	case len(parts) < 6 || parts[5] == "":
		return "The policy failed legacy parsing"
	}
	return ""
}

// conditions reads the element Condition: operators, keys and values.
func (s statement) conditions() error {
	if !s.has("Condition") {
		return nil
	}
	var operators map[string]map[string]any
	if err := json.Unmarshal(s["Condition"], &operators); err != nil {
		return malformed("Syntax errors in policy.")
	}
	for operator, tests := range operators {
		if !operatorForm.MatchString(operator) {
			return malformed("Syntax errors in policy.")
		}
		for key := range tests {
			if !strings.Contains(key, ":") {
				return malformed("Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.")
			}
		}
	}
	return nil
}

// uniqueSids refuses statement ids that IAM cannot distinguish, or take.
func uniqueSids(all []statement) error {
	found := map[string]bool{}
	for _, s := range all {
		if !s.has("Sid") {
			continue
		}
		var sid string
		switch err := json.Unmarshal(s["Sid"], &sid); {
		case err != nil:
			return malformed("Syntax errors in policy.")
		case !sidForm.MatchString(sid):
			return malformed("Statement IDs (SID) must be alpha-numeric. Check that your input satisfies the regular expression [0-9A-Za-z]*")
		case sid != "" && found[sid]:
			return malformed("Statement IDs (SID) in a single policy must be unique.")
		}
		found[sid] = true
	}
	return nil
}

// principalProblem finds the first principal of a trust policy that IAM does
// not take.
func principalProblem(principals map[string]json.RawMessage) error {
	known := map[string]func(string) bool{
		"Service":   servicePrincipal,
		"AWS":       awsForm.MatchString,
		"Federated": federatedForm.MatchString,
	}
	for kind, raw := range principals {
		check, values := known[kind], stringList(raw)
		if check == nil || len(values) == 0 {
			return malformed("Invalid principal in policy.")
		}
		for _, v := range values {
			if !check(v) {
				return malformed("Invalid principal in policy: \"%s\":\"%s\"", strings.ToUpper(kind), v)
			}
		}
	}
	return nil
}

// servicePrincipal reports whether a name is one like ec2.amazonaws.com of a service that takes
// roles. IAM has hundreds of them; these are the ones that an account with a cluster uses.
func servicePrincipal(name string) bool {
	m := serviceForm.FindStringSubmatch(name)
	if m == nil || m[1] != "" {
		return m != nil && m[2] == "eks"
	}
	return slices.Contains([]string{
		"amplify", "apigateway", "application-autoscaling", "appmesh", "autoscaling", "backup", "batch", "bedrock", "cloudformation", "cloudtrail",
		"cloudwatch", "codebuild", "codedeploy", "codepipeline", "config", "databrew", "dms", "dynamodb", "ec2", "ec2fleet", "ecs", "ecs-tasks",
		"edgelambda", "eks", "eks-fargate-pods", "eks-nodegroup", "eks-local-outpost", "elasticache", "elasticbeanstalk", "elasticfilesystem",
		"elasticloadbalancing", "elasticmapreduce", "es", "events", "export", "firehose", "fis", "fsx", "glue", "guardduty", "iot", "kafka", "kinesis",
		"kms", "lambda", "lexv2", "logs", "mediaconvert", "monitoring", "opsworks", "osis", "pipes", "rds", "redshift", "s3", "sagemaker",
		"scheduler", "secretsmanager", "securityhub", "ses", "sns", "spot", "spotfleet", "sqs", "ssm", "states", "storagegateway", "transfer",
		"vpc-flow-logs", "vmie", "wafv2", "worklink", "workspaces", "xray",
	}, m[2])
}
