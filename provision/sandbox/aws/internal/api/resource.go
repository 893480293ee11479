package api

// Resource is a thing of the account, for whoever compares all that there is.
type Resource struct {
	// Service and Kind are as in the thing's ARN, such as "iam" and "role".
	Service, Kind, Name string
	// Value is what distinguishes one version of it from another.
	Value string
	Tags  map[string]string
}
