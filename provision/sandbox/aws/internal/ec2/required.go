package ec2

// required are the members that EC2's model marks as required.
func required() map[string][]string {
	return map[string][]string{
		"CreateFleet": {"TargetCapacitySpecification.TotalTargetCapacity", "LaunchTemplateConfigs",
			// The model requires it in its documentation only: "otherwise the request fails".
			"LaunchTemplateConfigs.#.LaunchTemplateSpecification.Version"},
		"CreateLaunchTemplate": {"LaunchTemplateName", "LaunchTemplateData"},
		"RunInstances":         {"MinCount", "MaxCount"},
		"TerminateInstances":   {"InstanceId"},
		"CreateTags":           {"ResourceId", "Tag"},
		"DeleteTags":           {"ResourceId"},

		"StopInstances": {"InstanceId"}, "DescribeInstanceAttribute": {"InstanceId", "Attribute"}, "ModifySubnetAttribute": {"SubnetId"},
		"CopyImage": {"Name", "SourceImageId", "SourceRegion"}, "EnableImageDeprecation": {"ImageId", "DeprecateAt"},
		"CreateSecurityGroup": {"GroupName", "GroupDescription"}, "DeletePlacementGroup": {"GroupName"},
		"CreateCapacityReservation": {"InstanceType", "InstancePlatform", "InstanceCount"}, "CancelCapacityReservation": {"CapacityReservationId"},

		"CreateInterruptibleCapacityReservationAllocation": {"CapacityReservationId", "InstanceCount"},
	}
}
