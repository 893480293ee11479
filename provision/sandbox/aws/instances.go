package aws

import (
	"time"
)

// Instances returns every instance that AWS still shows, by launch.
func (c *Cloud) Instances() []Instance {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.ec2.Instances()
}

// Terminate ends an instance as somebody would in the console.
func (c *Cloud) Terminate(id string) error {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.ec2.Terminate(id)
}

// Interrupt warns a spot instance, or one of an interruptible capacity
// reservation, of its interruption, and ends it after the configured delay, as
// EC2 does two minutes later.
func (c *Cloud) Interrupt(id string) error {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.ec2.Interrupt(id)
}

// RecommendRebalance announces that a spot instance is at a higher risk of being
// interrupted; nothing else happens to it.
func (c *Cloud) RecommendRebalance(id string) error {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.ec2.RecommendRebalance(id)
}

// Impair makes a status check of an instance fail from now on: "instance",
// "system" or "ebs"; "" makes all of them pass again. A code of a scheduled
// event, such as "instance-retirement", announces that event, also by AWS
// Health.
func (c *Cloud) Impair(id, check string) error {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.ec2.Impair(id, check)
}

// AnnounceScheduledEvent has AWS Health send a scheduled event of an instance, such as "instance-retirement", to EventBridge,
// while DescribeInstanceStatus does not return it: with Impair it does both.
func (c *Cloud) AnnounceScheduledEvent(id, code string) error {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.ec2.AnnounceScheduledEvent(id, code)
}

// DiskGiB is the size of the instance's EBS volume at a device name such as
// "/dev/xvda"; 0 where its launch template sets none, so that the image's own
// size holds.
func (c *Cloud) DiskGiB(id, device string) int {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.ec2.DiskGiB(id, device)
}

// Template has what the launch template of an instance holds, by EC2's own names, as in
// "MetadataOptions.HttpTokens" or "BlockDeviceMapping.1.Ebs.VolumeSize"; nil where
// there is no such instance. User data is left out: see Instance.UserData.
func (c *Cloud) Template(id string) map[string]string {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.ec2.Template(id)
}

// SetCapacity bounds how many instances of the offering may be alive at once;
// a launch beyond that gets InsufficientInstanceCapacity. Below zero the bound
// is lifted. Bounds with empty fields hold for the sum over what they cover.
func (c *Cloud) SetCapacity(o Offering, most int) error {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.ec2.SetCapacity(o, most)
}

// Refuse makes every launch of the offering fail with an EC2 error code, such
// as MaxSpotInstanceCountExceeded or VcpuLimitExceeded; "" lifts it.
func (c *Cloud) Refuse(o Offering, code string) error {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.ec2.Refuse(o, code)
}

// SetPrice changes what an hour of an instance type costs from now on: as a spot instance in the
// zone, or where that is empty on demand. Instances keep the price of their launch.
func (c *Cloud) SetPrice(instanceType, zone string, dollars float64) error {
	c.account.Lock()
	defer c.account.Unlock()
	return c.offers.SetPrice(instanceType, zone, dollars)
}

// Spend is what all instances have cost until the given time, in dollars: by
// the second from launch to shutting-down, at least a minute each, as EC2 bills
// Linux. The price is that of the launch.
func (c *Cloud) Spend(at time.Time) float64 {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.ec2.Spend(at)
}

// SetFreeAddresses makes a subnet have just so many addresses left.
func (c *Cloud) SetFreeAddresses(subnetID string, free int) error {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.ec2.VPC.SetFreeAddresses(subnetID, free)
}
