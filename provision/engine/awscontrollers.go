package engine

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/aws/karpenter-provider-aws/pkg/controllers/arczonalshift"
	"github.com/aws/karpenter-provider-aws/pkg/controllers/capacityreservation/capacitytype"
	reservationexpiration "github.com/aws/karpenter-provider-aws/pkg/controllers/capacityreservation/expiration"
	"github.com/aws/karpenter-provider-aws/pkg/controllers/interruption"
	awsmetrics "github.com/aws/karpenter-provider-aws/pkg/controllers/metrics"
	"github.com/aws/karpenter-provider-aws/pkg/controllers/nodeclaim/tagging"
	"github.com/aws/karpenter-provider-aws/pkg/controllers/nodeclass"
	profilecollection "github.com/aws/karpenter-provider-aws/pkg/controllers/nodeclass/garbagecollection"
	classhash "github.com/aws/karpenter-provider-aws/pkg/controllers/nodeclass/hash"
	typerefresh "github.com/aws/karpenter-provider-aws/pkg/controllers/providers/instancetype"
	"github.com/aws/karpenter-provider-aws/pkg/controllers/providers/instancetype/capacity"
	pricerefresh "github.com/aws/karpenter-provider-aws/pkg/controllers/providers/pricing"
	"github.com/aws/karpenter-provider-aws/pkg/controllers/providers/ssm/invalidation"
	versionrefresh "github.com/aws/karpenter-provider-aws/pkg/controllers/providers/version"
	awsoptions "github.com/aws/karpenter-provider-aws/pkg/operator/options"
	sqsprovider "github.com/aws/karpenter-provider-aws/pkg/providers/sqs"
	"github.com/awslabs/operatorpkg/controller"
	"github.com/awslabs/operatorpkg/status"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// awsControllers are the controllers of Karpenter's AWS provider. The same test
// as for coreControllers keeps the list complete.
func awsControllers(ctx context.Context, p *parts) []controller.Controller {
	aws, opts := p.providers, awsoptions.FromContext(ctx)
	all := []controller.Controller{
		classhash.NewController(p.client, aws.caBundle),
		classController(p, opts.DisableDryRun),
		collectionController(p),
		tagging.NewController(p.client, p.cloud, aws.instances.instances),
		pricerefresh.NewController(aws.instances.prices),
		typerefresh.NewController(aws.instances.types),
		capacity.NewController(p.client, p.cloud, aws.instances.types),
		invalidation.NewController(aws.caches.ssm, aws.images.amis),
		status.NewController[*awsv1.EC2NodeClass](p.client, eventRecorder(p.mgr), status.EmitDeprecatedMetrics),
		versionrefresh.NewController(aws.images.version, aws.images.version.UpdateVersionWithValidation),
		capacitytype.NewController(p.client, p.cloud),
		reservationexpiration.NewController(p.clock, p.client, p.cloud, aws.network.reservations),
		awsmetrics.NewController(p.client, p.cloud),
		arczonalshift.NewController(p.client, p.recorder, aws.network.zonalShift),
		interruption.NewInstanceStatusController(p.client, p.clock, p.cloud, p.recorder, aws.instances.statuses),
	}
	if !opts.IsolatedVPC {
		all = append(all, profilecollection.NewController(p.client, p.cloud, aws.instances.profiles, aws.config.Region))
	}
	if opts.InterruptionQueue != "" {
		all = append(all, interruptionController(ctx, p))
	}
	return all
}

// classController judges each EC2NodeClass.
func classController(p *parts, skipDryRun bool) controller.Controller {
	aws := p.providers
	return nodeclass.NewController(
		p.clock, p.client, p.cloud, p.recorder, aws.config.Region,
		aws.network.subnets, aws.network.securityGroups, aws.images.amis, aws.instances.profiles,
		aws.instances.types, aws.instances.templates, aws.network.reservations, aws.network.placementGroups,
		aws.ec2, aws.caches.validation, aws.caches.recreation, aws.images.resolver, aws.expressions, skipDryRun,
	)
}

// interruptionController reads EC2's warnings. The queue may be missing now and
// come later (the AWS side of the same Cluster makes it): the controller then reads it
// again at every round.
func interruptionController(ctx context.Context, p *parts) controller.Controller {
	api := sqs.NewFromConfig(p.providers.config)
	queue, err := sqsprovider.NewSQSProvider(ctx, api)
	if err != nil {
		log.FromContext(ctx).Info("the interruption queue cannot be found yet: create it, or correct spec.engine.interruptionQueue",
			"queue", awsoptions.FromContext(ctx).InterruptionQueue, "reason", err.Error())
		queue = nil
	}
	return interruption.NewController(p.client, p.clock, p.cloud, p.recorder, queue, api,
		p.providers.caches.unavailable)
}
