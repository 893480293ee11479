package aws

// ImageName is the name of a machine image, which tells a node's family, driver
// and Kubernetes version; "" for an id that is not in this account.
func (c *Cloud) ImageName(id string) string {
	c.account.Lock()
	defer c.account.Unlock()
	if i := c.st.image(id); i != nil {
		return i.name
	}
	return ""
}
