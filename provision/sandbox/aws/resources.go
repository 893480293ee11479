package aws

import (
	"slices"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Resource is a thing of the account.
type Resource = api.Resource

// Resources are all roles, instance profiles, queues, rules, access entries and launch
// templates that there are, also those that nobody finds yet. Instances returns the instances.
func (c *Cloud) Resources() []Resource {
	c.account.Lock()
	defer c.account.Unlock()
	return slices.Concat(c.st.iam.Resources(), c.st.sqs.Resources(), c.st.events.Resources(), c.st.eks.Resources(), c.st.ec2.Templates())
}
