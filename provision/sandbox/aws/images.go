package aws

// CopyImage makes an image of the account's own out of another, as a build of
// custom images does: under a name and tags by which a selector finds it. It
// returns the copy's id.
func (c *Cloud) CopyImage(id, name string, tags map[string]string) (string, error) {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.ec2.Images.Copy(id, name, tags)
}

// Publish makes a release of the Amazon Linux images, as in "v20261120", which the
// parameters recommend from now on. The older images stay.
func (c *Cloud) Publish(release string) error {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.ec2.Images.Publish(release)
}

// ImageName is the name of a machine image, which names a node's family, driver and
// Kubernetes version; "" for an id that is not in this account.
func (c *Cloud) ImageName(id string) string {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.ec2.Images.Name(id)
}
