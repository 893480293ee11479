package aws

// Name is the Target in the keys of this world's items.
const Name = "aws"
